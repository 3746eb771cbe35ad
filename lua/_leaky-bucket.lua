--[[
Leaky bucket (GCRA): shared/core/algorithms/leaky-bucket.ts, operation by operation. State: as of a token bucket, but
left at its instant while the bucket is not full; whole tokens may then be negative.
]]
local REFILL_MAX = 1048576
local bucket = rules_of(TOKEN_BUCKET)

local function anchor(C)
  C.anchor_whole, C.anchor_fraction, C.anchor_us = C.left, C.fraction, C.last_us
end

local function is_full(whole, fraction, terms)
  return whole >= terms.cap_whole and fraction >= terms.cap_fraction
end

local M = {
  is_sound = bucket.is_sound, reset_ms = bucket.reset_ms, wait_ms = bucket.wait_ms, keep_ms = bucket.keep_ms, must_renew = bucket.must_renew,
}

function M.settle(C, meta, now, version, whole, fraction, from_us)
  bucket.settle(C, meta, now, version, whole, fraction, from_us)
  local exp_us = C.tracked and C.exp_us or 0
  if C.stored and not C.astray and version == C.limit.version and from_us <= now and from_us >= meta.start_us and
    (from_us >= exp_us or now < exp_us) and not is_full(C.left, C.fraction, C.terms) and
    (now - from_us) * C.terms.rate < REFILL_MAX then
    C.anchor_whole, C.anchor_fraction, C.anchor_us = whole, fraction, from_us
  else
    anchor(C)
  end
end

function M.admit_usual(L, meta, now, cost, expiry_set, whole, fraction, last_us)
  local left, most, reset_ms, level, rest, instant =
    bucket.admit_usual(L, meta, now, cost, expiry_set, whole, fraction, last_us)
  if not left then return nil end
  local terms = L.terms
  if is_full(level + cost, rest, terms) or (now - last_us) * terms.rate >= REFILL_MAX then
    return left, most, reset_ms, level, rest, instant
  end
  return left, most, reset_ms, whole - cost, fraction, last_us
end

function M.take(C, cost)
  C.left = C.left - cost
  C.anchor_whole = C.anchor_whole - cost
end

function M.give_back(C, meta, now, cost, at_us)
  if not bucket.give_back(C, meta, now, cost, at_us) then return false end
  anchor(C)
  return true
end

function M.resize(C, meta, now)
  bucket.resize(C, meta, now)
  anchor(C)
  return true
end

function M.heal(C, meta, now)
  bucket.heal(C, meta, now)
  anchor(C)
end

function M.state(C)
  return C.anchor_whole, C.anchor_fraction, C.anchor_us
end

return M
