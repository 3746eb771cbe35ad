--[[
Gives counters of one slot group their shares, each with its ledger row.

KEYS[1] meta of the slot group
KEYS[2] ledger rows of the slot group
KEYS[3...] counters, each once
ARGV[1] fence
ARGV[2] replication id
ARGV[3] limits, packed (LIMIT_FORMAT)
ARGV[4] writes, packed doubles, for each counter in order: index of its limit from 1 (0: the limit is no more), home
        and borrowed units, end of the borrowed part in us, then 1 or 0 for: shrinks, pinned, tracked
ARGV[5...] ledger row of each counter; '' removes it

Reply: packed doubles for each counter: 0 written, 1 occupied (its window has admitted more than the share; nothing of
it was changed). Or FENCED, OTHER_SERVER, STALE or OTHER_TIME; then nothing was changed.
Atomic because share, level and ledger row of a counter must never disagree, and because the level must be settled
with the old share up to the instant of the change. A bucket that is absent is created from the old share: born later
it would be full.
]]
local FIRST_COUNTER = 2
local FIRST_ROW = 4
local WRITE_FORMAT = '<ddddddd'
local WRITTEN, OCCUPIED = 0, 1

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or meta.fence ~= tonumber(ARGV[1]) then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local now = now_us()
local limits = read_limits(ARGV[3])
if is_other_time(limits, now) then return OTHER_TIME end
local writes = {}
local position = 1
for index = 1, #KEYS - FIRST_COUNTER do
  local limit, home, borrowed, exp_us, shrinks, pinned, tracked
  limit, home, borrowed, exp_us, shrinks, pinned, tracked, position = unpack_from(WRITE_FORMAT, ARGV[4], position)
  local C
  if limit > 0 then
    C = load_counter(values[FIRST_COUNTER + index], limits[limit], meta, now)
    if not C then return STALE end
  end
  writes[index] = {
    C = C, home = home, borrowed = borrowed, exp_us = exp_us, shrinks = shrinks == 1, pinned = pinned == 1,
    tracked = tracked == 1,
  }
end

-- Puts the counter under its new share; false when that is too small for what its window has admitted.
local function resize(C, W)
  local was_known = C.tracked and not C.corrupt
  C.tracked, C.corrupt, C.home, C.borrowed, C.exp_us = W.tracked, false, W.home, W.borrowed, W.exp_us
  if not C.rules.resize(C, meta, now, W.shrinks) then return false end
  if W.tracked and not was_known then C.admitted, C.denied, C.returned = 0, 0, 0 end
  C.pinned = W.tracked and W.pinned
  return true
end

local outcomes = {}
for index, W in ipairs(writes) do
  local key, row, C = KEYS[FIRST_COUNTER + index], ARGV[FIRST_ROW + index], W.C
  local was_corrupt = C and C.corrupt
  outcomes[index] = WRITTEN
  if C and not resize(C, W) then
    outcomes[index] = OCCUPIED
  else
    if not C then
      redis.call('DEL', key)
    elseif W.tracked or C.stored then
      write_counter(key, C, meta, now)
    end
    if row == '' then
      redis.call('HDEL', KEYS[2], string.sub(key, 3))
    else
      redis.call('HSET', KEYS[2], string.sub(key, 3), row)
    end
    if C and (was_corrupt or not W.shrinks) then tell(GROWN .. string.sub(key, 3)) end
  end
end
return pack('<' .. string.rep('d', #outcomes), unpack(outcomes))
