--[[
Decides all checks of one slot group that arrived together: each takes its cost from all its limits, or from none.

KEYS[1] meta of the slot group
KEYS[2] hot set: counters that ran low and are not tracked
KEYS[3] usage totals of the slot group
KEYS[4...] counters, each once
ARGV[1] version of the policies that the checks were matched with
ARGV[2] limits, packed (LIMIT_FORMAT)
ARGV[3] checks, packed doubles: cost in tokens, number of targets, then for each target the index of its limit
        and of its counter, from 1, and of a concurrency limit the holder's id as four unsigned 32-bit integers

Reply: packed doubles: the instant of the decisions in us, then for each target: whole tokens remaining, ms to the
reset, and ms to wait or a code (-1 allowed, -2 the cost exceeds the limit, -3 never under the present share).
Or one of STALE, NOT_SERVED, OTHER_SERVER, BAD_INPUT, OTHER_TIME; then nothing was changed.
Atomic because two checks that both read a counter before either writes it would admit more than the share; and
because totals, counters and the hot set must tell the same story.

Counters are settled once and kept in Lua locals; everything is written at the end, so that a refusal changes
nothing and several checks of one counter cost one write.
]]
-- SERVER_ID, the replication id under which it may decide, is put in front when the script is loaded.
local policy_version = tonumber(ARGV[1])
local FIRST_COUNTER = 3

local ALLOWED, EXCEEDS, NEVER = -1, -2, -3

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or not meta.serving then return NOT_SERVED end
if not is_server(SERVER_ID) then return OTHER_SERVER end
if policy_version < meta.version then return STALE end

local now = now_us()
local limits = read_limits(ARGV[2])
if is_other_time(limits, now) then return OTHER_TIME end
local checks = { unpack_from('<' .. string.rep('d', #ARGV[3] / 8), ARGV[3]) }
-- struct.unpack ends with the position after the last value.
checks[#checks] = nil
local counters = {}
local reply, replies = { now }, 1
local noted, noted_ids = {}, {}

local function wait_ms(C, cost)
  if cost > C.most then return NEVER end
  return C.rules.wait_ms(C, now, cost, meta) or NEVER
end

local function say(C, code)
  reply[replies + 1], reply[replies + 2], reply[replies + 3] = C.left, C.rules.reset_ms(C, now, meta), code
  replies = replies + 3
end

local function note(index)
  if not noted[index] then
    noted[index] = true
    noted_ids[#noted_ids + 1] = string.sub(KEYS[FIRST_COUNTER + index], 3)
  end
end

-- `low`: where a counter has a mark of its own for it.
local function runs_low(C)
  if C.low then return C.left <= C.low end
  return not C.tracked and C.left * LOW_OF < C.most * LOW_PARTS
end

local function admit(C, index, cost, holder)
  if cost == 0 or (holder and C.rules.holds(C, holder)) then return end
  local L = C.limit
  take(C, cost, now, holder)
  L.admitted = L.admitted + cost
  if C.tracked then C.admitted = min(C.admitted + cost, TOKENS_MAX) end
  if runs_low(C) then note(index) end
end

-- A denial of a cost that could pass changes only what is counted of it.
local function deny(C, index, cost)
  if cost == 0 then return end
  local L = C.limit
  L.denied = L.denied + cost
  if C.tracked then
    C.denied = min(C.denied + cost, TOKENS_MAX)
    C.dirty = true
  end
  if C.low or C.corrupt or not C.tracked then note(index) end
  if C.astray then heal(C, meta, now) end
end

-- Targets of the check at hand: their counters, which they are, and the holder where one counts (else false).
local targets, indexes, holders = {}, {}, {}

local function decide(cost, count)
  local all_pass = true
  for target = 1, count do
    -- The same counter may stand twice in one check; it must then have both costs.
    local C = targets[target]
    C.held = C.held + cost
  end
  for target = 1, count do
    local C = targets[target]
    local holder = holders[target]
    C.passes = cost <= C.limit.most and max(C.held, 1) <= C.left or holder and C.rules.holds(C, holder)
    all_pass = all_pass and C.passes
  end
  for target = 1, count do
    local C, index = targets[target], indexes[target]
    C.held = 0
    if C.passes then
      if all_pass then admit(C, index, cost, holders[target]) end
      say(C, ALLOWED)
    elseif cost > C.limit.most then
      say(C, EXCEEDS)
    else
      deny(C, index, cost)
      say(C, wait_ms(C, max(cost, 1)))
    end
  end
end

-- The usual case by a shorter way, more than twice as fast: one target, an untracked counter with a state of the
-- present version, enough tokens. The new state is put back into `values`, packed. False: nothing was done.
local in_place = {}

local function admit_usual(L, index, cost)
  local text = values[FIRST_COUNTER + index]
  if not text or #text ~= COUNTER_SIZE or cost == 0 then return false end
  local algorithm, version, a, b, c, expiry_set = unpack_from(COUNTER_FORMAT, text)
  if algorithm ~= L.algorithm or version ~= L.version then return false end
  local left, most, reset_ms
  local admit_now = rules_of(algorithm).admit_usual
  if not admit_now then return false end
  left, most, reset_ms, a, b, c = admit_now(L, meta, now, cost, expiry_set, a, b, c)
  if not left then return false end
  values[FIRST_COUNTER + index] = pack(COUNTER_FORMAT, algorithm, version, a, b, c, expiry_set)
  in_place[index] = true
  L.admitted = L.admitted + cost
  if left * LOW_OF < most * LOW_PARTS then note(index) end
  reply[replies + 1], reply[replies + 2], reply[replies + 3] = left, reset_ms, ALLOWED
  replies = replies + 3
  return true
end

local function counter_at(index, L)
  local C = counters[index]
  if not C then
    C = load_counter(values[FIRST_COUNTER + index], L, meta, now)
    if not C then return nil end
    counters[index] = C
    if in_place[index] then
      in_place[index] = nil
      C.dirty = true
    end
  end
  return C
end

local position, size = 1, #checks
while position < size do
  local cost, count = checks[position], checks[position + 1]
  local L, index = limits[checks[position + 2]], checks[position + 3]
  if not (cost >= 0 and cost <= TOKENS_MAX and floor(cost) == cost) then return BAD_INPUT end
  position = position + 2
  if count > 1 or counters[index] or not admit_usual(L, index, cost) then
    for target = 1, count do
      L, index = limits[checks[position]], checks[position + 1]
      local C = counter_at(index, L)
      if not C then return STALE end
      position = position + 2
      local holder = false
      if L.algorithm == CONCURRENCY then
        holder = pack(HOLDER_FORMAT, checks[position], checks[position + 1], checks[position + 2], checks[position + 3])
        position = position + 4
      end
      targets[target], indexes[target], holders[target] = C, index, holder
    end
    decide(cost, count)
  else
    position = position + 2
  end
end

for index in pairs(in_place) do redis.call('SETRANGE', KEYS[FIRST_COUNTER + index], '0', values[FIRST_COUNTER + index]) end
for index, C in pairs(counters) do
  if C.dirty then store_counter(KEYS[FIRST_COUNTER + index], C, meta, now) end
end

note_hot(KEYS[2], noted_ids)
add_totals(KEYS[3], limits, now, now)

return pack('<' .. string.rep('d', replies), unpack(reply))
