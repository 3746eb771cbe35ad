--[[
Reads what the daemon needs to know of one slot group; the caller bounds how much at once.

KEYS[1] meta of the slot group
KEYS[2] hot set
KEYS[3] usage totals
KEYS[4...] tracked counters
ARGV[1] fence
ARGV[2] replication id
ARGV[3] most counters to take out of the hot set; 0 also leaves the names of changed totals where they are
ARGV[4...] fields of the usage totals

Reply: { packed doubles: the instant in us, then for each counter whether it has a share of its own (0, 1, or 2: one
that is corrupt) and the tokens it admitted, denied and had returned; counters from the hot set; value of each field; fields of the usage
totals that changed since the last reading, or '*' for any; their values }. Or FENCED or OTHER_SERVER.
Atomic because the figures are published as the state of one instant. What is taken out of the hot set is put in again
by the next check that runs short, and a daemon that misses a reply begins anew by reading all totals: so a lost reply
loses nothing.
]]
local FIRST_COUNTER, FIRST_FIELD = 3, 4

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or meta.fence ~= tonumber(ARGV[1]) then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local figures = { now_us() }
for slot = FIRST_COUNTER + 1, #KEYS do
  local C = { tracked = false, corrupt = false, admitted = 0, denied = 0, returned = 0 }
  local text = values[slot]
  if text and #text >= TRACKED_SIZE and string.byte(text) >= TRACKED_MARK then read_tail(C, text, meta, true) end
  local last = #figures
  figures[last + 1], figures[last + 2] = C.corrupt and 2 or C.tracked and 1 or 0, C.admitted
  figures[last + 3], figures[last + 4] = C.denied, C.returned
end

local noticed = {}
if tonumber(ARGV[3]) > 0 then noticed = redis.call('SPOP', KEYS[2], ARGV[3]) end
local totals = {}
if #ARGV >= FIRST_FIELD then totals = redis.call('HMGET', KEYS[3], unpack(ARGV, FIRST_FIELD)) end
local changed, values_changed = {}, {}
if tonumber(ARGV[3]) > 0 then
  for field in string.gmatch(redis.call('HGET', KEYS[3], CHANGED) or '', '[^,]+') do changed[#changed + 1] = field end
  if #changed > 0 then
    redis.call('HDEL', KEYS[3], CHANGED)
    values_changed = redis.call('HMGET', KEYS[3], unpack(changed))
  end
end
return { pack('<' .. string.rep('d', #figures), unpack(figures)), noticed, totals, changed, values_changed }
