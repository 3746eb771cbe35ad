--[[
Gives the tokens of admitted checks back to their counters.

KEYS[1] meta of the slot group
KEYS[2] usage totals of the slot group
KEYS[3...] counters, each once
ARGV[1] version of the policies that the checks were matched with
ARGV[2] limits, packed (LIMIT_FORMAT)
ARGV[3] returns, packed doubles: cost in tokens, instant of the admission in us, number of targets, then for each
        target the index of its limit and of its counter, from 1

Reply: 0, or one of STALE, NOT_SERVED, OTHER_SERVER, BAD_INPUT; then nothing was changed.
Atomic because a check between the reading and the writing would be forgotten.

A bucket never rises above its share and is credited only soon after the admission: what it refilled since it would not
have held beside those tokens. A window is credited only while it is the window of the admission; a counter that is
gone is not created. Nothing admitted before the region's levels start is credited: its taking was forgotten.
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
local counters = {}

local function give_back(C, cost, at_us, holder)
  if not C.stored or at_us < meta.start_us then return end
  if not C.rules.give_back(C, meta, now, cost, at_us, holder) then return end
  if C.tracked then C.returned = min(C.returned + cost, TOKENS_MAX) end
  C.dirty = true
end

-- Read and validate everything before the first write.
local items = {}
local position, size = 1, #returns
while position <= size do
  local cost, at_us, count
  cost, at_us, count, position = unpack_from('<ddd', returns, position)
  if not (cost >= 0 and cost <= TOKENS_MAX and floor(cost) == cost) then return BAD_INPUT end
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
    items[#items + 1] = { C, L, cost, at_us, holder }
  end
end

-- Usage belongs to the window in which it was admitted; nearly always one window for the whole call.
local function flush_totals(L)
  if L.returned == 0 then return end
  add_totals(KEYS[2], { L }, L.returned_at_us, now)
  L.returned = 0
end

for _, item in ipairs(items) do
  local C, L, cost, at_us, holder = unpack(item, 1, 5)
  give_back(C, cost, at_us, holder)
  local window = floor(at_us / L.usage_window_us)
  if L.returned_window ~= window then flush_totals(L) end
  L.returned, L.returned_at_us, L.returned_window = L.returned + cost, at_us, window
end
for _, L in ipairs(limits) do flush_totals(L) end
for index, C in pairs(counters) do
  if C.dirty then store_counter(KEYS[FIRST_COUNTER + index], C, meta, now) end
end
return 0
