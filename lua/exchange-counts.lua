--[[
Tells counters of eventual policies what other regions counted, and reads what this one did.

KEYS[1] meta of the slot group
KEYS[2...] counters, each once
ARGV[1] fence
ARGV[2] replication id
ARGV[3] limits, packed (LIMIT_FORMAT)
ARGV[4] exchanges, packed doubles, for each counter in order: index of its limit from 1, beginning of a window in us,
        tokens that all other regions together are known to have admitted in it

Reply: packed doubles for each counter: beginning of its window in us, and tokens that this region admitted in it. Or
FENCED, OTHER_SERVER or STALE; then nothing was changed.
Atomic because a count is published as the window's that it was read with.
]]
local FIRST_COUNTER = 1
local EXCHANGE_FORMAT = '<ddd'

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or meta.fence ~= tonumber(ARGV[1]) then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local now = now_us()
local limits = read_limits(ARGV[3])
local changed, counts = {}, {}
local position = 1
for index = 1, #KEYS - FIRST_COUNTER do
  local limit, start_us, foreign
  limit, start_us, foreign, position = unpack_from(EXCHANGE_FORMAT, ARGV[4], position)
  local C = load_counter(values[FIRST_COUNTER + index], limits[limit], meta, now)
  if not C then return STALE end
  if C.rules.hear(C, meta, start_us, foreign) then changed[index] = C end
  counts[2 * index - 1], counts[2 * index] = C.start_us, C.count
end
for index, C in pairs(changed) do write_counter(KEYS[FIRST_COUNTER + index], C, meta, now) end
return pack('<' .. string.rep('d', #counts), unpack(counts))
