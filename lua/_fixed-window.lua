--[[
Fixed window: shared/core/algorithms/fixed-window.ts, operation by operation. State: beginning of the window, tokens
admitted in it, tokens admitted in the window before it.
]]
local EDGE_US = 100000

local function window_of(at_us, window_us)
  return floor(at_us / window_us) * window_us
end

-- What a window has admitted that a smaller share must still cover. Just after an edge the window before counts too:
-- a peer with a slower clock is still in it. What was admitted before this region's levels start is not known.
local function occupancy(C, meta, now)
  local is_early = now - C.start_us < EDGE_US
  if C.unknown or (is_early and C.start_us - C.limit.window_us < meta.start_us) then return math.huge end
  return is_early and max(C.count, C.previous) or C.count
end

local M = {}

function M.settle(C, meta, now, version, stored_us, count, previous)
  local L = C.limit
  local window_us = L.window_us
  local start_us = window_of(now, window_us)
  C.count, C.previous = 0, 0
  if C.stored then
    if stored_us > now then
      start_us, C.count, C.previous = stored_us, count, previous
    elseif stored_us >= start_us then
      C.count, C.previous = count, previous
    elseif stored_us + window_us == start_us then
      C.previous = count
    end
  end
  C.start_us = start_us
  C.same_window = C.stored and start_us == stored_us
  C.unknown = start_us < meta.start_us
  C.astray = start_us > max(now, meta.start_us) + window_us
  C.most = share_tokens(L.capacity, units_at(C, meta, L.home, now))
  C.left = C.unknown and 0 or max(0, C.most - C.count)
end

function M.admit_usual(L, meta, now, cost, expiry_set, begin_us, count, previous)
  local window_us = L.window_us
  if begin_us ~= floor(now / window_us) * window_us or begin_us < meta.start_us then return nil end
  local most = L.window_tokens
  if not most then
    most = share_tokens(L.capacity, meta.recovering and 0 or L.home)
    L.window_tokens = most
  end
  count = count + cost
  if count > most then return nil end
  return most - count, most, ceil((begin_us + window_us - now) / 1000), begin_us, count, previous
end

function M.take(C, cost)
  C.left = C.left - cost
  C.count = C.count + cost
end

function M.give_back(C, meta, now, cost, at_us)
  if window_of(at_us, C.limit.window_us) ~= C.start_us then return false end
  C.count = max(0, C.count - cost)
  C.left = C.unknown and 0 or max(0, C.most - C.count)
  return true
end

-- What is leased counts as admitted; nothing of it outlives the window.
function M.lease(C, meta, now, wanted)
  local tokens = block_of(wanted, C.most, C.left)
  if not tokens then return nil end
  C.left, C.count = C.left - tokens, C.count + tokens
  local rest_us = C.start_us + C.limit.window_us - now
  return tokens, min(lease_life_us(C, now), rest_us), WINDOW_RETURN_US
end

function M.return_lease(C, now, tokens, at_us)
  if window_of(at_us, C.limit.window_us) ~= C.start_us then return end
  C.count = max(0, C.count - tokens)
  C.left = C.unknown and 0 or max(0, C.most - C.count)
end

function M.resize(C, meta, now, shrinks)
  local L = C.limit
  return not (shrinks and occupancy(C, meta, now) > share_tokens(L.capacity, units_at(C, meta, L.home, now)))
end

function M.heal(C, meta, now)
  C.start_us = window_of(now, C.limit.window_us)
  C.previous, C.same_window = C.count, false
  C.unknown = C.start_us < meta.start_us
  if C.unknown then C.left = 0 end
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
  return C.start_us, C.count, C.previous
end

function M.keep_ms(C, now)
  return ceil((C.start_us + C.limit.window_us - now) / 1000) + 1000
end

-- A window's expiry is set once for each window.
function M.must_renew(C)
  return not C.same_window
end

return M
