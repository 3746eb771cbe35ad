--[[
Fixed window of an eventual policy: shared/core/estimate. This region counts for itself and knows what others counted
as it was last told. State: beginning of the window, tokens admitted in it.

A counter that the daemon keeps up to date is tracked: `exp_us` is what other regions are known to have admitted in its
window, which may need all of a double. One that is not yet is noted by each check.
]]
local M = {}

local function window_of(at_us, window_us)
  return floor(at_us / window_us) * window_us
end

local function left_of(C, meta)
  if C.unknown or meta.recovering then return 0 end
  return max(0, C.limit.capacity - C.foreign - C.count)
end

function M.settle(C, meta, now, version, stored_us, count)
  local L = C.limit
  local start_us = window_of(now, L.window_us)
  if C.stored and stored_us > now then start_us = stored_us end
  C.same_window = C.stored and stored_us == start_us
  if not C.same_window then C.tracked, C.in_place = false, false end
  C.start_us, C.count = start_us, C.same_window and count or 0
  C.foreign, C.most = C.tracked and C.exp_us or 0, L.capacity
  C.low = not C.tracked and math.huge or nil
  C.unknown = start_us < meta.start_us
  C.astray = start_us > max(now, meta.start_us) + L.window_us
  C.left = left_of(C, meta)
end

function M.admit_usual()
  return nil
end

function M.take(C, cost)
  C.left = C.left - cost
  C.count = C.count + cost
end

function M.give_back(C, meta, now, cost, at_us)
  if window_of(at_us, C.limit.window_us) ~= C.start_us then return false end
  C.count = max(0, C.count - cost)
  C.left = left_of(C, meta)
  return true
end

--- What others are known to have admitted in the window that began at `start_us`; true when that is news.
function M.hear(C, meta, start_us, foreign)
  if C.start_us ~= start_us then foreign = 0 end
  if C.tracked and foreign <= C.foreign then return false end
  if not C.tracked then C.admitted, C.denied, C.returned = 0, 0, 0 end
  C.foreign = max(C.foreign, foreign)
  C.tracked, C.pinned, C.home, C.borrowed, C.exp_us = true, false, 0, 0, C.foreign
  C.left = left_of(C, meta)
  return true
end

-- Nothing of an estimate is lent.
function M.resize()
  return false
end

function M.heal(C, meta, now)
  C.start_us, C.same_window, C.in_place = window_of(now, C.limit.window_us), false, false
  C.tracked, C.foreign = false, 0
  C.unknown = C.start_us < meta.start_us
  C.left = left_of(C, meta)
end

function M.reset_ms(C, now)
  local window_us = C.limit.window_us
  local start_us = C.astray and window_of(now, window_us) or C.start_us
  return ceil((start_us + window_us - now) / 1000)
end

function M.wait_ms(C, now)
  return M.reset_ms(C, now)
end

function M.state(C)
  return C.start_us, C.count, 0
end

function M.keep_ms(C, now)
  return M.reset_ms(C, now) + 1000
end

function M.must_renew(C)
  return not C.same_window
end

return M
