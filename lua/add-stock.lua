--[[
Adds to counters of long windows what admin has allotted to this region.

KEYS[1] meta of the slot group
KEYS[2...] counters, each once
ARGV[1] fence
ARGV[2] replication id
ARGV[3] limits, packed (LIMIT_FORMAT)
ARGV[4] allotments, packed doubles, for each counter in order: index of its limit from 1, beginning of the window in
        us, tokens that the region had of it before the answer and with it, and tokens left below which more is to be
        asked for (-1: there is nothing more)

Reply: packed doubles for each counter: 1 added, 0 its window is another by now and nothing of it was changed. Or
FENCED, OTHER_SERVER or STALE; then nothing was changed.
Atomic because what was admitted must be known when what went before the answer is counted as spent.
]]
local FIRST_COUNTER = 1
local ALLOTMENT_FORMAT = '<ddddd'

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or meta.fence ~= tonumber(ARGV[1]) then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local now = now_us()
local limits = read_limits(ARGV[3])
local counters, outcomes = {}, {}
local position = 1
for index = 1, #KEYS - FIRST_COUNTER do
  local limit, start_us, from, to, low
  limit, start_us, from, to, low, position = unpack_from(ALLOTMENT_FORMAT, ARGV[4], position)
  local C = load_counter(values[FIRST_COUNTER + index], limits[limit], meta, now)
  if not C then return STALE end
  outcomes[index] = 0
  if C.end_us and C.start_us == start_us then
    C.rules.add(C, meta, from, to, low)
    counters[index], outcomes[index] = C, 1
  end
end
for index, C in pairs(counters) do write_counter(KEYS[FIRST_COUNTER + index], C, meta, now) end
return pack('<' .. string.rep('d', #outcomes), unpack(outcomes))
