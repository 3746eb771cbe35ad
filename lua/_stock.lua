--[[
Stock of a long window: shared/core/stock/counter.ts, operation by operation. State: beginning of the window, tokens
admitted in it, boot in which that was stored; under another boot it is not known what was admitted.

A counter that admin has answered about in its window is tracked: `exp_us` is what it was allotted, which may need all
of a double, and `home` how much is left when more is asked for (EXHAUSTED: nothing more can be had).

Of the limit: changed_us, idle_us and idle_tokens are beginning, end and floor of a window that admin has opened,
previous_window_us, previous_burst and previous_capacity those of the one after it. All are 0 where there is none.
]]
local EDGE_US = 100000
local LOW_PART = 5
local RETRY_MS = 1000
local EXHAUSTED = 4294967295

local M = {}

local function window_at(L, at_us)
  if L.changed_us <= at_us and at_us < L.idle_us then return L.changed_us, L.idle_us, L.idle_tokens end
  if L.previous_window_us <= at_us and at_us < L.previous_burst then
    return L.previous_window_us, L.previous_burst, L.previous_capacity
  end
  return nil
end

local function left_of(C, meta)
  if not C.end_us or meta.recovering then return 0 end
  return max(0, C.floor + (C.allotted or 0) - C.count)
end

-- Without what was stored of it.
local function begin(C, count)
  C.count, C.allotted, C.low = count, nil, floor(C.floor / LOW_PART)
  C.tracked, C.in_place = false, false
end

function M.settle(C, meta, now, version, stored_us, count, boot)
  local at_us = now
  if C.stored and stored_us - now <= EDGE_US then at_us = max(now, stored_us) end
  local start_us, end_us, floor_tokens = window_at(C.limit, at_us)
  C.boot, C.most, C.start_us, C.end_us, C.floor = meta.boot, C.limit.capacity, start_us or 0, end_us, floor_tokens or 0
  C.same_window, C.stored_boot = C.stored and stored_us == start_us, boot
  if not start_us then
    begin(C, 0)
    C.low = -1
  elseif not C.stored or stored_us < start_us then
    begin(C, start_us >= meta.start_us and 0 or C.floor)
  elseif not C.same_window or boot ~= meta.boot then
    begin(C, C.floor)
  elseif C.tracked then
    C.count, C.allotted, C.low = count, C.exp_us, C.home < EXHAUSTED and C.home or -1
  else
    begin(C, count)
  end
  C.left = left_of(C, meta)
end

function M.admit_usual(L, meta, now, cost, expiry_set, stored_us, count, boot)
  local start_us, end_us, floor_tokens = window_at(L, now)
  if stored_us ~= start_us or boot ~= meta.boot or meta.recovering then return nil end
  count = count + cost
  local left = floor_tokens - count
  if left <= floor(floor_tokens / LOW_PART) then return nil end
  return left, left, ceil((end_us - now) / 1000), stored_us, count, boot
end

function M.take(C, cost)
  C.left = C.left - cost
  C.count = C.count + cost
end

function M.give_back(C, meta, now, cost, at_us)
  if not C.same_window or C.boot ~= C.stored_boot or at_us < C.start_us or at_us >= C.end_us then return false end
  C.count = max(0, C.count - cost)
  C.left = left_of(C, meta)
  return true
end

--- What the region was allotted before and with an answer of admin's; only the first counts the former as spent.
function M.add(C, meta, from, to, low)
  if not C.allotted then C.count = C.count + from end
  C.allotted, C.low = max(C.allotted or 0, to), min(low, EXHAUSTED - 1)
  if not C.tracked then C.admitted, C.denied, C.returned = 0, 0, 0 end
  C.tracked, C.pinned = true, false
  C.home, C.borrowed, C.exp_us = C.low < 0 and EXHAUSTED or C.low, 0, C.allotted
  C.left = left_of(C, meta)
end

-- Nothing of a long window is lent.
function M.resize(C)
  return false
end

-- A window ends when admin said that it does, so none lies in the future.
function M.heal(C) end

function M.reset_ms(C, now)
  return C.end_us and ceil((C.end_us - now) / 1000) or RETRY_MS
end

-- Until admin has answered, or, where nothing more can be had, until the next window.
function M.wait_ms(C, now)
  return C.low < 0 and M.reset_ms(C, now) or RETRY_MS
end

function M.state(C)
  return C.start_us, C.count, C.boot
end

function M.keep_ms(C, now)
  return M.reset_ms(C, now) + 1000
end

function M.must_renew(C)
  return not C.same_window
end

return M
