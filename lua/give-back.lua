--[[
Gives the tokens of admitted checks back to their counters; those with a mark once, however often they are asked to.

KEYS[1] meta of the slot group
KEYS[2] usage totals of the slot group
KEYS[3...] counters and marks of refunds, each once
ARGV[1] version of the policies that the checks were matched with
ARGV[2] limits, packed (LIMIT_FORMAT)
ARGV[3] returns, packed doubles: cost in tokens, instant of the admission in us, index of the mark among the counters
        from 1 (0: none), number of targets, then for each target the index of its limit and of its counter, from 1

Reply: packed doubles, for each return: 1 done, 0 its mark was there already, -1 too long ago for a mark; then for each
target 1 where something was credited, else 0. Or one of STALE, NOT_SERVED, OTHER_SERVER, BAD_INPUT, OTHER_TIME; then nothing was
changed.
Atomic because a check between the reading and the writing would be forgotten.

A bucket never rises above its share and is not credited what the limit refilled since: a full one would not have held
it beside those tokens. A window is credited only while it counts the admission; a counter that is gone is not created.
Nothing admitted before the region's levels start is credited: its taking was forgotten. A mark outlives the time in
which its refund may be credited.
]]
-- SERVER_ID, the replication id under which it may run, is put in front when the script is loaded.
local policy_version = tonumber(ARGV[1])
local returns = ARGV[3]
local FIRST_COUNTER = 2

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or not meta.serving then return NOT_SERVED end
if not is_server(SERVER_ID) then return OTHER_SERVER end
if policy_version < meta.version then return STALE end

local now = now_us()
local limits = read_limits(ARGV[2])
if is_other_time(limits, now) then return OTHER_TIME end
local counters = {}
local DONE, REPEATED, TOO_LATE = 1, 0, -1
local REFUND_MAX_US = 3600000000
local MARK_MS = '3660000'

local function give_back(C, cost, at_us, holder)
  if not C.stored or at_us < meta.start_us then return false end
  if not C.rules.give_back(C, meta, now, cost, at_us, holder) then return false end
  if C.tracked then C.returned = min(C.returned + cost, TOKENS_MAX) end
  C.dirty = true
  return true
end

local function outcome_of(mark, at_us)
  if mark == 0 then return DONE end
  if values[FIRST_COUNTER + mark] then return REPEATED end
  if now - at_us > REFUND_MAX_US then return TOO_LATE end
  values[FIRST_COUNTER + mark] = '1'
  return DONE
end

-- Read and validate everything before the first write.
local items, marks, reply = {}, {}, {}
local position, size = 1, #returns
while position <= size do
  local cost, at_us, mark, count
  cost, at_us, mark, count, position = unpack_from('<dddd', returns, position)
  if not (cost >= 0 and cost <= TOKENS_MAX and floor(cost) == cost) then return BAD_INPUT end
  local outcome = outcome_of(mark, at_us)
  reply[#reply + 1] = outcome
  if mark > 0 and outcome == DONE then marks[#marks + 1] = mark end
  for _ = 1, count do
    local limit_index, index
    limit_index, index, position = unpack_from('<dd', returns, position)
    local L = limits[limit_index]
    local C = counters[index] or load_counter(values[FIRST_COUNTER + index], L, meta, now)
    if not C then return STALE end
    counters[index] = C
    local holder
    if L.algorithm == CONCURRENCY then
      local one, two, three, four
      one, two, three, four, position = unpack_from('<dddd', returns, position)
      holder = pack(HOLDER_FORMAT, one, two, three, four)
    end
    reply[#reply + 1] = 0
    -- Who holds tokens releases them; they are not refunded.
    if outcome == DONE and not (holder and mark > 0) then
      items[#items + 1] = { C, L, cost, at_us, holder, #reply }
    end
  end
end

-- Usage belongs to the window in which it was admitted; nearly always one window for the whole call.
local function flush_totals(L)
  if L.returned == 0 then return end
  add_totals(KEYS[2], { L }, L.returned_at_us, now)
  L.returned = 0
end

for _, item in ipairs(items) do
  local C, L, cost, at_us, holder, place = unpack(item, 1, 6)
  if give_back(C, cost, at_us, holder) then reply[place] = 1 end
  local window = floor(at_us / L.usage_window_us)
  if L.returned_window ~= window then flush_totals(L) end
  L.returned, L.returned_at_us, L.returned_window = L.returned + cost, at_us, window
end
for _, L in ipairs(limits) do flush_totals(L) end
for index, C in pairs(counters) do
  if C.dirty then
    store_counter(KEYS[FIRST_COUNTER + index], C, meta, now)
    tell(GROWN .. string.sub(KEYS[FIRST_COUNTER + index], 3))
  end
end
for _, mark in ipairs(marks) do redis.call('SET', KEYS[FIRST_COUNTER + mark], '1', 'PX', MARK_MS) end
return pack('<' .. string.rep('d', #reply), unpack(reply))
