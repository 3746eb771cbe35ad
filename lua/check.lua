--[[
Decides all checks of one slot group that arrived together: each takes its cost from all its limits, or from none.

KEYS[1] meta of the slot group
KEYS[2] hot set: counters that ran low and are not tracked
KEYS[3] usage totals of the slot group
KEYS[4...] counters, each once
ARGV[1] version of the policies that the checks were matched with
ARGV[2] limits, packed (LIMIT_FORMAT)
ARGV[3] checks, packed doubles: cost in tokens, number of targets, then for each target the index of its limit
        and of its counter, from 1

Reply: packed doubles: the instant of the decisions in us, then for each target: whole tokens remaining, ms to the
reset, and ms to wait or a code (-1 allowed, -2 the cost exceeds the limit, -3 never under the present share).
Or one of STALE, NOT_SERVED, OTHER_SERVER, BAD_INPUT; then nothing was changed.
Atomic because two checks that both read a counter before either writes it would admit more than the share; and
because totals, counters and the hot set must tell the same story.

Counters are settled once and kept in Lua locals; everything is written at the end, so that a refusal changes
nothing and several checks of one counter cost one write.
]]
-- SERVER_ID, the replication id under which it may decide, is put in front when the script is loaded.
local policy_version = tonumber(ARGV[1])
local FIRST_COUNTER = 3

local ALLOWED, EXCEEDS, NEVER = -1, -2, -3

-- Most counters that wait in one hot set; a reader takes them out. Beyond it they are noted by a later check.
local HOT_MAX = 4096
local HOT_TTL_S = 600
-- A counter is noted once it has less than this left of its share.
local LOW_PARTS, LOW_OF = 3, 10

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or not meta.serving then return NOT_SERVED end
if not is_server(SERVER_ID) then return OTHER_SERVER end
if policy_version < meta.version then return STALE end

local now = now_us()
local now_s = floor(now / 1000000)
local start_us = meta.start_us
local limits = read_limits(ARGV[2])
local checks = { unpack_from('<' .. string.rep('d', #ARGV[3] / 8), ARGV[3]) }
-- struct.unpack ends with the position after the last value.
checks[#checks] = nil
local counters = {}
local reply, replies = { now }, 1
local noted, noted_ids = {}, {}

-- Ms, rounded up, until a bucket has `tokens` more; nil when it never will.
local function time_to_ms(C, tokens)
  local terms = C.terms
  if tokens <= terms.snap then return 0 end
  if terms.rate == 0 then return nil end
  local ahead_us = C.astray and 0 or C.last_us - now
  return ceil((ceil((tokens - terms.snap) / terms.rate) + ahead_us) / 1000)
end

local function reset_ms(C)
  if C.count then
    local window_us = C.limit.window_us
    local start_us = C.astray and floor(now / window_us) * window_us or C.start_us
    return ceil((start_us + window_us - now) / 1000)
  end
  return time_to_ms(C, C.terms.cap_whole - C.left + (C.terms.cap_fraction - C.fraction)) or 0
end

local function wait_ms(C, cost)
  if cost > C.most then return NEVER end
  if C.count then return reset_ms(C) end
  return time_to_ms(C, cost - C.left - C.fraction) or NEVER
end

local function say(C, code)
  reply[replies + 1], reply[replies + 2], reply[replies + 3] = C.left, reset_ms(C), code
  replies = replies + 3
end

local function note(index)
  if not noted[index] then
    noted[index] = true
    noted_ids[#noted_ids + 1] = string.sub(KEYS[FIRST_COUNTER + index], 3)
  end
end

local function admit(C, index, cost)
  if cost == 0 then return end
  local L = C.limit
  take(C, cost)
  L.admitted = L.admitted + cost
  if C.tracked then
    C.admitted = min(C.admitted + cost, TOKENS_MAX)
  elseif C.left * LOW_OF < C.most * LOW_PARTS then
    note(index)
  end
end

-- A denial of a cost that could pass changes only what is counted of it.
local function deny(C, index, cost)
  if cost == 0 then return end
  local L = C.limit
  L.denied = L.denied + cost
  if C.tracked then
    C.denied = min(C.denied + cost, TOKENS_MAX)
    C.dirty = true
  else
    note(index)
  end
  if C.astray then heal(C, meta, now) end
end

-- Targets of the check at hand: their counters, and which they are.
local targets, indexes = {}, {}

local function decide(cost, count)
  local all_pass = true
  for target = 1, count do
    -- The same counter may stand twice in one check; it must then have both costs.
    local C = targets[target]
    C.held = C.held + cost
  end
  for target = 1, count do
    local C = targets[target]
    C.passes = cost <= C.limit.most and max(C.held, 1) <= C.left
    all_pass = all_pass and C.passes
  end
  for target = 1, count do
    local C, index = targets[target], indexes[target]
    C.held = 0
    if C.passes then
      if all_pass then admit(C, index, cost) end
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

-- `advance` and `is_aged` are written out: a call of a Lua function costs as much as the arithmetic in it.
local function admit_bucket(L, index, cost, whole, fraction, last_us, expiry_set)
  local age = now_s - expiry_set
  if last_us > now or last_us < start_us or age < 0 then return false end
  if age > 0 and age >= floor(bucket_keep_ms(L) / 4000) then return false end
  local terms = L.terms or cold_terms(L, meta)
  local cap_whole, cap_fraction, rate, snap = terms.cap_whole, terms.cap_fraction, terms.rate, terms.snap
  local added = (now - last_us) * rate
  local added_whole = floor(added)
  whole = whole + added_whole
  fraction = fraction + (added - added_whole)
  if fraction >= 1 then
    whole = whole + 1
    fraction = fraction - 1
  end
  if 1 - fraction <= snap then
    whole = whole + 1
    fraction = 0
  end
  if whole > cap_whole or (whole == cap_whole and fraction > cap_fraction) then
    whole, fraction = cap_whole, cap_fraction
  end
  whole = whole - cost
  if whole < 0 then return false end
  values[FIRST_COUNTER + index] = pack(COUNTER_FORMAT, TOKEN_BUCKET, L.version, whole, fraction, now, expiry_set)
  local missing = cap_whole - whole + (cap_fraction - fraction)
  return true, whole, cap_whole, ceil(ceil((missing - snap) / rate) / 1000)
end

local function admit_window(L, index, cost, begin_us, count, previous, expiry_set)
  local window_us = L.window_us
  if begin_us ~= floor(now / window_us) * window_us or begin_us < start_us then return false end
  local most = L.window_tokens
  if not most then
    most = share_tokens(L.capacity, meta.recovering and 0 or L.home)
    L.window_tokens = most
  end
  count = count + cost
  if count > most then return false end
  values[FIRST_COUNTER + index] = pack(COUNTER_FORMAT, L.algorithm, L.version, begin_us, count, previous, expiry_set)
  return true, most - count, most, ceil((begin_us + window_us - now) / 1000)
end

local function admit_usual(L, index, cost)
  local text = values[FIRST_COUNTER + index]
  if not text or #text ~= COUNTER_SIZE or cost == 0 then return false end
  local algorithm, version, a, b, c, expiry_set = unpack_from(COUNTER_FORMAT, text)
  if algorithm ~= L.algorithm or version ~= L.version then return false end
  local done, left, most, until_ms
  if L.is_bucket then
    done, left, most, until_ms = admit_bucket(L, index, cost, a, b, c, expiry_set)
  else
    done, left, most, until_ms = admit_window(L, index, cost, a, b, c, expiry_set)
  end
  if not done then return false end
  in_place[index] = true
  L.admitted = L.admitted + cost
  if left * LOW_OF < most * LOW_PARTS then note(index) end
  reply[replies + 1], reply[replies + 2], reply[replies + 3] = left, until_ms, ALLOWED
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
      index = checks[position + 1]
      local C = counter_at(index, limits[checks[position]])
      if not C then return STALE end
      targets[target], indexes[target] = C, index
      position = position + 2
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

if #noted_ids > 0 and redis.call('SCARD', KEYS[2]) < HOT_MAX then
  if redis.call('SADD', KEYS[2], unpack(noted_ids)) > 0 then redis.call('EXPIRE', KEYS[2], HOT_TTL_S) end
end
add_totals(KEYS[3], limits, now, now)

return pack('<' .. string.rep('d', replies), unpack(reply))
