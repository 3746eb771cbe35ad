--[[
Sliding counter: shared/core/algorithms/sliding-counter.ts, operation by operation. State: beginning of the window,
tokens admitted in it, tokens admitted in the window before it.
]]
local DIGIT, DIGITS = 128, 8

local function window_of(at_us, window_us)
  return floor(at_us / window_us) * window_us
end

-- `tokens` times `part_us` / `window_us`, rounded up, exact for every token count.
local function weighted(tokens, window_us, part_us)
  local product = tokens * part_us
  if product <= TOKENS_MAX then return ceil(product / window_us) end
  local quotient, rest = 0, 0
  for digit = DIGITS - 1, 0, -1 do
    local part = floor(tokens / DIGIT ^ digit) % DIGIT
    local dividend = rest * DIGIT + part * part_us
    local times = floor(dividend / window_us)
    quotient = quotient * DIGIT + times
    rest = dividend - times * window_us
  end
  return rest > 0 and quotient + 1 or quotient
end

local function estimate(C, now)
  local window_us = C.limit.window_us
  return C.count + weighted(C.previous, window_us, window_us - max(0, now - C.start_us))
end

local function room(C, meta, now)
  local L = C.limit
  C.most = share_tokens(L.capacity, units_at(C, meta, L.home, now))
  C.left = C.blind and 0 or max(0, C.most - estimate(C, now))
end

-- Least part of a window after which at most `left` of `tokens` of the window before still count.
local function elapsed_for(tokens, window_us, left)
  if tokens <= left then return 0 end
  local elapsed_us = window_us - floor(left * (window_us / tokens))
  while weighted(tokens, window_us, window_us - elapsed_us) > left do elapsed_us = elapsed_us + 1 end
  while elapsed_us > 0 and weighted(tokens, window_us, window_us - elapsed_us + 1) <= left do
    elapsed_us = elapsed_us - 1
  end
  return elapsed_us
end

local function ms_from(now, at_us)
  return max(0, ceil((at_us - now) / 1000))
end

local function is_other_window(L, version)
  if version == L.version then return false end
  return version ~= L.previous_version or L.previous_window_us ~= L.window_us
end

local M = {}

function M.is_sound(start_us, count, previous)
  return is_whole(start_us) and is_whole(count) and is_whole(previous)
end

function M.settle(C, meta, now, version, stored_us, count, previous)
  local L = C.limit
  local window_us = L.window_us
  local start_us = window_of(now, window_us)
  C.count, C.previous = 0, 0
  if C.stored then
    if is_other_window(L, version) then
      stored_us, count, previous = window_of(L.changed_us, window_us), count + previous, 0
    end
    if stored_us > now then
      start_us, C.count, C.previous = stored_us, count, previous
    elseif stored_us == start_us then
      C.count, C.previous = count, previous
    elseif stored_us + window_us == start_us then
      C.previous = count
    end
  end
  C.start_us, C.was_start_us = start_us, stored_us
  C.blind = start_us - window_us < meta.start_us
  C.astray = start_us > max(now, meta.start_us) + window_us
  room(C, meta, now)
end

function M.admit_usual(L, meta, now, cost, expiry_set, begin_us, count, previous)
  local window_us = L.window_us
  if begin_us ~= floor(now / window_us) * window_us or begin_us - window_us < meta.start_us then return nil end
  local most = L.window_tokens
  if not most then
    most = share_tokens(L.capacity, meta.recovering and 0 or L.home)
    L.window_tokens = most
  end
  count = count + cost
  local left = most - count - weighted(previous, window_us, window_us - (now - begin_us))
  if left < 0 then return nil end
  return left, most, ceil((begin_us + 2 * window_us - now) / 1000), begin_us, count, previous
end

function M.take(C, cost)
  C.left = C.left - cost
  C.count = C.count + cost
end

function M.give_back(C, meta, now, cost, at_us)
  if window_of(at_us, C.limit.window_us) ~= C.start_us then return false end
  C.count = max(0, C.count - cost)
  room(C, meta, now)
  return true
end

function M.resize(C, meta, now, shrinks)
  room(C, meta, now)
  return not (shrinks and (C.blind or estimate(C, now) > C.most))
end

function M.heal(C, meta, now)
  local window_us = C.limit.window_us
  C.start_us = window_of(now, window_us)
  C.blind = C.start_us - window_us < meta.start_us
  room(C, meta, now)
end

local function present_start(C, now)
  return C.astray and window_of(now, C.limit.window_us) or C.start_us
end

function M.reset_ms(C, now)
  local window_us = C.limit.window_us
  if C.count > 0 then return ms_from(now, present_start(C, now) + 2 * window_us) end
  if C.previous > 0 or C.blind then return ms_from(now, present_start(C, now) + window_us) end
  return 0
end

function M.wait_ms(C, now, cost, meta)
  local window_us = C.limit.window_us
  if C.blind then return ms_from(now, ceil(meta.start_us / window_us) * window_us + window_us) end
  local start_us, left = present_start(C, now), C.most - C.count - cost
  if left >= 0 then return ms_from(now, start_us + elapsed_for(C.previous, window_us, left)) end
  return ms_from(now, start_us + window_us + elapsed_for(C.count, window_us, C.most - cost))
end

function M.state(C)
  return C.start_us, C.count, C.previous
end

function M.keep_ms(C, now)
  return ms_from(now, C.start_us + 2 * C.limit.window_us) + 1000
end

function M.must_renew(C)
  return C.start_us ~= C.was_start_us
end

return M
