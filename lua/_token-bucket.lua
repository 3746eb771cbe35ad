--[[
Token bucket: shared/core/algorithms/token-bucket.ts, operation by operation. State: whole tokens, fraction, instant
that they stand for. Body, while it has leases out: what was granted in the present slot of LEASE_US and in the one
before it, the slot, and the instant of the last grant.
]]
local GRANTS_FORMAT = '<dddd'
local GRANTS_SIZE = 32

-- Rate, size and snap of a bucket under some numbers and units.
local function terms_of(capacity, window_us, burst, units)
  local rate = (capacity * units) / (POOL_UNITS * window_us)
  local cap = share_burst(burst, units)
  local whole = floor(cap)
  return { rate = rate, cap_whole = whole, cap_fraction = cap - whole, snap = min(SNAP_TOKENS_MAX, rate / 2) }
end

local function clamp(whole, fraction, terms)
  local cap_whole = terms.cap_whole
  if whole > cap_whole or (whole == cap_whole and fraction > terms.cap_fraction) then
    return cap_whole, terms.cap_fraction
  end
  return whole, fraction
end

local function add(whole, fraction, added, terms)
  local added_whole = floor(added)
  whole = whole + added_whole
  fraction = fraction + (added - added_whole)
  if fraction >= 1 then
    whole = whole + 1
    fraction = fraction - 1
  end
  if 1 - fraction <= terms.snap then
    whole = whole + 1
    fraction = 0
  end
  return clamp(whole, fraction, terms)
end

local function advance(whole, fraction, elapsed_us, terms)
  if elapsed_us <= 0 then return whole, fraction end
  return add(whole, fraction, elapsed_us * terms.rate, terms)
end

-- Refills under one set of numbers, the borrowed part only while it may be used.
local function refill_under(C, meta, capacity, window_us, burst, home, from_us, to_us)
  local exp_us = C.tracked and C.exp_us or 0
  if from_us < exp_us then
    local until_us = min(exp_us, to_us)
    C.left, C.fraction = advance(C.left, C.fraction, until_us - from_us,
      terms_of(capacity, window_us, burst, units_at(C, meta, home, from_us)))
    from_us = until_us
  end
  if from_us < to_us then
    C.left, C.fraction = advance(C.left, C.fraction, to_us - from_us,
      terms_of(capacity, window_us, burst, units_at(C, meta, home, from_us)))
  end
end

-- The terms of an untracked counter, worked out once a call.
local function cold_terms(L, meta)
  if not L.terms then
    local units = meta.recovering and 0 or L.home
    L.terms = terms_of(L.capacity, L.window_us, L.burst, units)
  end
  return L.terms
end

-- A bucket that has leases out gives up what the limit refills in their life.
local function leased_burst(L)
  return max(0, L.burst - ceil(L.capacity * LEASE_US / L.window_us))
end

local function terms_now(C, meta, now)
  local L = C.limit
  if not C.tracked and not C.grants then return cold_terms(L, meta) end
  local burst = C.grants and leased_burst(L) or L.burst
  return terms_of(L.capacity, L.window_us, burst, units_at(C, meta, L.home, now))
end

-- What was granted lately, while that counts; nil when no lease can be out any more.
local function read_grants(body, now)
  if not body or #body ~= GRANTS_SIZE then return nil end
  local slot, current, previous, last_us = unpack_from(GRANTS_FORMAT, body)
  if now - last_us >= LEASE_US then return nil end
  local now_slot = floor(now / LEASE_US)
  if now_slot > slot then
    previous = now_slot == slot + 1 and current or 0
    slot, current = now_slot, 0
  end
  return { slot = slot, current = current, previous = previous, last_us = last_us }
end

local function full_keep_ms(L)
  if L.capacity == 0 then return 2000 end
  if not L.keep_ms then
    L.keep_ms = min(ceil((L.burst / L.capacity) * (L.window_us / 1000) * 1.4) + 2000, KEEP_MS_MAX)
  end
  return L.keep_ms
end

-- Ms, rounded up, until the bucket has `tokens` more; nil when it never will.
local function time_to_ms(C, now, tokens)
  local terms = C.terms
  if tokens <= terms.snap then return 0 end
  if terms.rate == 0 then return nil end
  local ahead_us = C.astray and 0 or C.last_us - now
  return ceil((ceil((tokens - terms.snap) / terms.rate) + ahead_us) / 1000)
end

local M = {}

-- Whole tokens of a leaky bucket may be negative.
function M.is_sound(whole, fraction, last_us)
  return is_whole(abs(whole)) and fraction >= 0 and fraction < 1 and last_us >= 0 and last_us <= TOKENS_MAX
end

-- Without a stored state: the level and instant of an idle bucket.
function M.settle(C, meta, now, version, whole, fraction, from_us, body)
  local L = C.limit
  C.grants = C.stored and read_grants(body, now) or nil
  if not C.stored then
    whole = floor(L.idle_tokens)
    version, fraction, from_us = L.version, L.idle_tokens - whole, L.idle_us
  end
  if from_us < meta.start_us then
    whole, fraction, from_us = 0, 0, meta.start_us
  end
  C.last_us = from_us > now and from_us or now
  C.astray = from_us > max(now, meta.start_us) + L.window_us
  local terms = terms_now(C, meta, now)
  C.terms, C.most = terms, terms.cap_whole
  if C.grants then C.most = floor(share_burst(L.burst, units_at(C, meta, L.home, now))) end
  if version ~= L.version or C.tracked then
    C.left, C.fraction = whole, fraction
    if version ~= L.version then
      if version == L.previous_version then
        refill_under(C, meta, L.previous_capacity, L.previous_window_us, L.previous_burst, L.previous_home,
          from_us, min(L.changed_us, now))
      end
      from_us = max(from_us, L.changed_us)
    end
    refill_under(C, meta, L.capacity, L.window_us, L.burst, L.home, from_us, now)
    whole, fraction = C.left, C.fraction
  else
    whole, fraction = advance(whole, fraction, now - from_us, terms)
  end
  C.left, C.fraction = clamp(whole, fraction, terms)
  -- No bucket owes anything: one that seems to is empty, and is healed as one from the future.
  if C.left < 0 then C.left, C.fraction, C.last_us, C.astray = 0, 0, now, true end
end

-- `add` is written out: a call of a Lua function costs as much as the arithmetic in it.
function M.admit_usual(L, meta, now, cost, expiry_set, whole, fraction, last_us)
  local age = floor(now / 1000000) - expiry_set
  if last_us > now or last_us < meta.start_us or age < 0 then return nil end
  if age > 0 and age >= floor(full_keep_ms(L) / 4000) then return nil end
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
  if whole < 0 then return nil end
  local missing = cap_whole - whole + (cap_fraction - fraction)
  return whole, cap_whole, ceil(ceil((missing - snap) / rate) / 1000), whole, fraction, now
end

function M.take(C, cost)
  C.left = C.left - cost
end

function M.give_back(C, meta, now, cost, at_us)
  local L = C.limit
  if at_us > now or at_us < L.changed_us then return false end
  -- Not what the limit refilled meanwhile: a full bucket would not have been refilled beside those tokens.
  local credit = cost - (L.capacity * (now - at_us)) / L.window_us
  if credit <= 0 then return false end
  local before = C.left
  C.left, C.fraction = add(C.left, C.fraction, credit, C.terms)
  -- Beside leases, only what these leave room for.
  local grants = C.grants
  if grants then C.left = max(before, min(C.left, C.terms.cap_whole - grants.current - grants.previous)) end
  return true
end

function M.resize(C, meta, now)
  C.terms = terms_now(C, meta, now)
  C.left, C.fraction = clamp(C.left, C.fraction, C.terms)
  return true
end

function M.lease(C, meta, now, wanted)
  local grants = C.grants
  if not grants then
    grants = { slot = floor(now / LEASE_US), current = 0, previous = 0, last_us = now }
    C.grants = grants
    C.terms = terms_now(C, meta, now)
    C.left, C.fraction = clamp(C.left, C.fraction, C.terms)
  end
  local tokens = block_of(wanted, C.terms.cap_whole, C.left)
  if not tokens then return nil end
  C.left = C.left - tokens
  grants.current, grants.last_us = grants.current + tokens, max(grants.last_us, now)
  return tokens, lease_life_us(C, now), LEASE_US
end

-- The level and the other leases together never pass what may be held; the rest is lost and refills by itself.
function M.return_lease(C, now, tokens, at_us)
  local grants, terms = C.grants, C.terms
  if not grants or now - at_us >= LEASE_US then return end
  local others = grants.current + grants.previous - tokens
  local room = floor(terms.cap_whole + terms.cap_fraction - C.left - C.fraction - others)
  C.left = C.left + max(0, min(tokens, room))
  local older = min(tokens, grants.previous)
  grants.previous = grants.previous - older
  grants.current = max(0, grants.current - (tokens - older))
end

function M.heal(C, meta, now)
  C.last_us = max(now, meta.start_us)
end

function M.reset_ms(C, now)
  return time_to_ms(C, now, C.terms.cap_whole - C.left + (C.terms.cap_fraction - C.fraction)) or 0
end

function M.wait_ms(C, now, cost)
  return time_to_ms(C, now, cost - C.left - C.fraction)
end

function M.state(C)
  local grants, body = C.grants, nil
  if grants then
    body = pack(GRANTS_FORMAT, grants.slot, grants.current, grants.previous, grants.last_us)
  elseif C.body ~= '' then
    body = ''
  end
  return C.left, C.fraction, C.last_us, body
end

function M.keep_ms(C)
  return full_keep_ms(C.limit)
end

-- Whether the expiry, set in the second C.expiry_set, no longer covers the time to keep: a quarter has passed.
function M.must_renew(C, now)
  local age = floor(now / 1000000) - C.expiry_set
  if age == 0 then return false end
  return age < 0 or age >= floor(full_keep_ms(C.limit) / 4000)
end

return M
