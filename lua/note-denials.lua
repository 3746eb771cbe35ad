--[[
Counts what an enforcer denied without asking: the counters had said how long they would deny.

KEYS[1] meta of the slot group
KEYS[2] hot set: counters that ran low and are not tracked
KEYS[3] usage totals of the slot group
KEYS[4...] counters, each once
ARGV[1] version of the policies that the checks were matched with
ARGV[2] limits, packed (LIMIT_FORMAT)
ARGV[3] denials, packed doubles, for each counter in order: index of its limit, from 1, and the tokens that were denied

Reply: 0, or one of STALE, NOT_SERVED, OTHER_SERVER, OTHER_TIME; then nothing was changed.
Atomic because a check between the reading and the writing of a tracked counter would be forgotten.
]]
-- SERVER_ID, the replication id under which it may run, is put in front when the script is loaded.
local FIRST_COUNTER = 3

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or not meta.serving then return NOT_SERVED end
if not is_server(SERVER_ID) then return OTHER_SERVER end
if tonumber(ARGV[1]) < meta.version then return STALE end

local now = now_us()
local limits = read_limits(ARGV[2])
if is_other_time(limits, now) then return OTHER_TIME end

local counters, noted = {}, {}
local position = 1
for index = 1, #KEYS - FIRST_COUNTER do
  local limit, tokens
  limit, tokens, position = unpack_from('<dd', ARGV[3], position)
  local C = load_counter(values[FIRST_COUNTER + index], limits[limit], meta, now)
  if not C then return STALE end
  counters[index] = C
  C.limit.denied = min(C.limit.denied + tokens, TOKENS_MAX)
  if C.tracked then C.denied = min(C.denied + tokens, TOKENS_MAX) end
  if C.low or C.corrupt or not C.tracked then noted[#noted + 1] = string.sub(KEYS[FIRST_COUNTER + index], 3) end
end

for index, C in ipairs(counters) do
  if C.tracked then store_counter(KEYS[FIRST_COUNTER + index], C, meta, now) end
end
note_hot(KEYS[2], noted)
add_totals(KEYS[3], limits, now, now)
return 0
