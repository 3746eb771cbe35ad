--[[
Concurrency: shared/core/algorithms/concurrency.ts, operation by operation. State: tokens held, end of the last hold in
us, then 0; body: holder, end and tokens of each hold, in the order of their ends.
]]
local HOLD_FORMAT, HOLD_BYTES = '<c16dd', 32
local HOLDERS_MAX = 1024
local WAIT_MS_MAX = 1000

local function ms_from(now, at_us)
  return max(0, ceil((at_us - now) / 1000))
end

-- A hold lasts as long as the limit said when it began.
local function longest_us(L)
  return max(L.window_us, L.previous_window_us)
end

local function hold_at(body, index)
  local holder, end_us, tokens = unpack_from(HOLD_FORMAT, body, index * HOLD_BYTES + 1)
  return end_us, tokens, holder
end

local function room(C, meta, now)
  local L = C.limit
  C.most = share_tokens(L.capacity, units_at(C, meta, L.home, now))
  local is_full = C.blind or #C.holds >= HOLDERS_MAX * HOLD_BYTES
  C.left = is_full and 0 or max(0, C.most - C.in_use)
end

-- Place of a holder's hold, from 0; nil when it holds nothing.
local function find(C, holder)
  local from = 1
  while true do
    local found = string.find(C.holds, holder, from, true)
    if not found then return nil end
    if (found - 1) % HOLD_BYTES == 0 then return (found - 1) / HOLD_BYTES end
    from = found + 1
  end
end

local function last_end(C)
  local count = #C.holds / HOLD_BYTES
  return count > 0 and hold_at(C.holds, count - 1) or 0
end

local function remove(C, index)
  local _, tokens = hold_at(C.holds, index)
  C.holds = string.sub(C.holds, 1, index * HOLD_BYTES) .. string.sub(C.holds, (index + 1) * HOLD_BYTES + 1)
  C.in_use = C.in_use - tokens
  room(C, C.meta, C.now)
end

local M = { holds = find }

function M.is_sound(in_use, last_us)
  return is_whole(in_use) and is_whole(last_us)
end

function M.settle(C, meta, now, version, in_use, last_us, _, body)
  local L = C.limit
  C.holds, C.in_use = '', 0
  if C.stored then
    local first, count = 0, floor(#body / HOLD_BYTES)
    while first < count do
      local end_us, tokens = hold_at(body, first)
      if end_us > now then break end
      in_use, first = in_use - tokens, first + 1
    end
    if first < count then C.holds, C.in_use = string.sub(body, first * HOLD_BYTES + 1), in_use end
  end
  C.was_last_us = last_us
  C.blind = now < meta.start_us + longest_us(L)
  C.astray = last_end(C) - 2 * longest_us(L) > max(now, meta.start_us)
  room(C, meta, now)
end

function M.take(C, cost, now, holder)
  if find(C, holder) then return end
  local end_us, place = now + C.limit.window_us, #C.holds / HOLD_BYTES
  while place > 0 and hold_at(C.holds, place - 1) > end_us do place = place - 1 end
  C.holds = string.sub(C.holds, 1, place * HOLD_BYTES) .. pack(HOLD_FORMAT, holder, end_us, cost)
    .. string.sub(C.holds, place * HOLD_BYTES + 1)
  C.in_use = C.in_use + cost
  room(C, C.meta, now)
end

-- Only what was acquired at `at_us`: an earlier hold of the same holder stays.
function M.give_back(C, meta, now, cost, at_us, holder)
  local index = find(C, holder)
  if not index or hold_at(C.holds, index) ~= at_us + C.limit.window_us then return false end
  remove(C, index)
  return true
end

function M.release(C, holder)
  local index = find(C, holder)
  if not index then return nil end
  local _, tokens = hold_at(C.holds, index)
  remove(C, index)
  return tokens
end

function M.resize(C, meta, now, shrinks)
  room(C, meta, now)
  return not (shrinks and (C.blind or C.in_use > C.most))
end

function M.heal(C, meta, now)
  local latest_us, parts = now + longest_us(C.limit), {}
  for index = 0, #C.holds / HOLD_BYTES - 1 do
    local end_us, tokens, holder = hold_at(C.holds, index)
    parts[index + 1] = pack(HOLD_FORMAT, holder, min(end_us, latest_us), tokens)
  end
  C.holds = table.concat(parts)
end

function M.reset_ms(C, now, meta)
  local longest = longest_us(C.limit)
  local last_us = C.astray and now + longest or last_end(C)
  return ms_from(now, max(last_us, C.blind and meta.start_us + longest or 0))
end

function M.wait_ms(C, now, cost, meta)
  if C.blind then return ms_from(now, meta.start_us + longest_us(C.limit)) end
  local short, free_us = max(1, C.in_use + cost - C.most), now
  for index = 0, #C.holds / HOLD_BYTES - 1 do
    if short <= 0 then break end
    local end_us, tokens = hold_at(C.holds, index)
    free_us, short = end_us, short - tokens
  end
  return min(ms_from(now, free_us), WAIT_MS_MAX)
end

function M.state(C)
  return C.in_use, last_end(C), 0, C.holds
end

function M.keep_ms(C, now)
  local last_us = last_end(C)
  return ms_from(now, last_us > 0 and last_us or now) + 1000
end

function M.must_renew(C)
  return last_end(C) ~= C.was_last_us
end

return M
