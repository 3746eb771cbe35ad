--[[
Fixed window: shared/core/algorithms/fixed-window.ts, operation by operation. State: beginning of the window, tokens
admitted in it, tokens admitted in the window before it.
]]
local EDGE_US = 100000

-- Beginning and end of the window of an instant, and beginning of the one before it.
local function window_at(L, at_us)
  local edges, window_us = L.edges, L.window_us
  if not edges then
    local start_us = floor(at_us / window_us) * window_us
    return start_us, start_us + window_us, start_us - window_us
  end
  for index = 4, 2, -1 do
    if at_us >= edges[index] then return edges[index], edges[index + 1], edges[index - 1] end
  end
  return edges[1], edges[2], edges[1] - window_us
end

-- What a window has admitted that a smaller share must still cover. Just after an edge the window before counts too:
-- a peer with a slower clock is still in it. What was admitted before this region's levels start is not known.
local function occupancy(C, meta, now)
  local is_early = now - C.start_us < EDGE_US
  if C.unknown or (is_early and C.previous_us < meta.start_us) then return math.huge end
  return is_early and max(C.count, C.previous) or C.count
end

local M = {}

function M.is_sound(start_us, count, previous)
  return is_whole(start_us) and is_whole(count) and is_whole(previous)
end

function M.settle(C, meta, now, version, stored_us, count, previous)
  local L = C.limit
  local start_us, end_us, previous_us = window_at(L, now)
  C.count, C.previous = 0, 0
  if C.stored then
    if stored_us > now then
      local _
      _, end_us, previous_us = window_at(L, stored_us)
      if end_us <= stored_us then end_us = stored_us + L.window_us end
      start_us, C.count, C.previous = stored_us, count, previous
    elseif stored_us >= start_us then
      C.count, C.previous = count, previous
    elseif stored_us == previous_us then
      C.previous = count
    end
  end
  C.start_us, C.end_us, C.previous_us = start_us, end_us, previous_us
  C.same_window = C.stored and start_us == stored_us
  C.unknown = start_us < meta.start_us
  C.astray = start_us > max(now, meta.start_us) + L.window_us
  C.most = share_tokens(L.capacity, units_at(C, meta, L.home, now))
  C.left = C.unknown and 0 or max(0, C.most - C.count)
end

function M.admit_usual(L, meta, now, cost, expiry_set, begin_us, count, previous)
  local window_us, start_us, end_us = L.window_us, nil, nil
  if L.edges then
    start_us, end_us = window_at(L, now)
  else
    start_us = floor(now / window_us) * window_us
    end_us = start_us + window_us
  end
  if begin_us ~= start_us or begin_us < meta.start_us then return nil end
  local most = L.window_tokens
  if not most then
    most = share_tokens(L.capacity, meta.recovering and 0 or L.home)
    L.window_tokens = most
  end
  count = count + cost
  if count > most then return nil end
  return most - count, most, ceil((end_us - now) / 1000), begin_us, count, previous
end

function M.take(C, cost)
  C.left = C.left - cost
  C.count = C.count + cost
end

function M.give_back(C, meta, now, cost, at_us)
  if window_at(C.limit, at_us) ~= C.start_us then return false end
  C.count = max(0, C.count - cost)
  C.left = C.unknown and 0 or max(0, C.most - C.count)
  return true
end

-- What is leased counts as admitted; nothing of it outlives the window.
function M.lease(C, meta, now, wanted)
  local tokens = block_of(wanted, C.most, C.left)
  if not tokens then return nil end
  C.left, C.count = C.left - tokens, C.count + tokens
  local rest_us = C.end_us - now
  return tokens, min(lease_life_us(C, now), rest_us), WINDOW_RETURN_US
end

function M.return_lease(C, now, tokens, at_us)
  if window_at(C.limit, at_us) ~= C.start_us then return end
  C.count = max(0, C.count - tokens)
  C.left = C.unknown and 0 or max(0, C.most - C.count)
end

function M.resize(C, meta, now, shrinks)
  local L = C.limit
  return not (shrinks and occupancy(C, meta, now) > share_tokens(L.capacity, units_at(C, meta, L.home, now)))
end

function M.heal(C, meta, now)
  C.start_us, C.end_us, C.previous_us = window_at(C.limit, now)
  C.previous, C.same_window = C.count, false
  C.unknown = C.start_us < meta.start_us
  if C.unknown then C.left = 0 end
end

function M.reset_ms(C, now)
  local end_us = C.end_us
  if C.astray then
    local _
    _, end_us = window_at(C.limit, now)
  end
  return ceil((end_us - now) / 1000)
end

function M.wait_ms(C, now)
  return M.reset_ms(C, now)
end

function M.state(C)
  return C.start_us, C.count, C.previous
end

function M.keep_ms(C, now)
  return ceil((C.end_us - now) / 1000) + 1000
end

-- A window's expiry is set once for each window.
function M.must_renew(C)
  return not C.same_window
end

return M
