--[[
Sliding window in sub-windows: shared/core/algorithms/sliding-window.ts and entries.ts, operation by operation. State:
instant and tokens of the newest entry, then 0; body: instant and tokens of each older one, oldest first. M.sliding_by
makes it of a rule, for the sliding log too.
]]
local SUB_WINDOWS = 20
local ENTRY_BYTES = 16

-- Last microsecond of the sub-window.
local function last_of(at_us, window_us)
  local length_us = ceil(window_us / SUB_WINDOWS)
  return (floor(at_us / length_us) + 1) * length_us - 1
end

local function ms_until(at_us, now)
  return max(0, ceil((at_us - now) / 1000))
end

local function room(C, meta, now)
  local L = C.limit
  C.most = share_tokens(L.capacity, units_at(C, meta, L.home, now))
  C.left = C.blind and 0 or max(0, C.most - C.count)
end

-- stamp(at_us, window_us), compact(C), find(C, at_us): as EntryRule of entries.ts.
local function sliding_by(stamp, compact, find)
  local M = {}

  function M.is_sound(newest_us, newest_tokens)
    return is_whole(newest_us) and is_whole(newest_tokens)
  end

  function M.settle(C, meta, now, version, newest_us, newest_tokens, _, body)
    local window_us = C.limit.window_us
    local times, tokens, size, count = {}, {}, 0, 0
    if C.stored then
      local older = floor(#body / ENTRY_BYTES)
      local numbers = { unpack_from('<' .. string.rep('dd', older), body) }
      numbers[2 * older + 1], numbers[2 * older + 2] = newest_us, newest_tokens
      for index = 1, older + 1 do
        local at_us = numbers[2 * index - 1]
        if numbers[2 * index] > 0 and is_whole(numbers[2 * index]) and now - at_us < window_us then
          size = size + 1
          times[size], tokens[size] = at_us, numbers[2 * index]
          count = count + tokens[size]
        end
      end
    end
    C.times, C.tokens, C.count = times, tokens, count
    C.was_newest_us = newest_us
    C.blind = now < meta.start_us + window_us
    C.astray = (times[size] or 0) > max(now, meta.start_us) + window_us
    room(C, meta, now)
  end

  function M.take(C, cost, now)
    local times, tokens = C.times, C.tokens
    local at_us, size = stamp(now, C.limit.window_us), #times
    if size == 0 or times[size] < at_us then
      times[size + 1], tokens[size + 1] = at_us, cost
    else
      tokens[size] = tokens[size] + cost
    end
    C.count, C.left = C.count + cost, C.left - cost
    if compact then compact(C) end
  end

  function M.give_back(C, meta, now, cost, at_us)
    if now - at_us >= C.limit.window_us then return false end
    local index = find(C, at_us)
    if not index then return false end
    local credit = min(cost, C.tokens[index])
    C.tokens[index] = C.tokens[index] - credit
    C.count = C.count - credit
    room(C, meta, now)
    return true
  end

  function M.resize(C, meta, now, shrinks)
    room(C, meta, now)
    return not (shrinks and (C.blind or C.count > C.most))
  end

  function M.heal(C, meta, now)
    C.times, C.tokens = { stamp(now, C.limit.window_us) }, { C.count }
  end

  function M.reset_ms(C, now, meta)
    local window_us, newest_us = C.limit.window_us, C.times[#C.times]
    if not newest_us and not C.blind then return 0 end
    local last_us = C.astray and stamp(now, window_us) or newest_us or 0
    return ms_until(max(last_us, C.blind and meta.start_us or 0) + window_us, now)
  end

  function M.wait_ms(C, now, cost, meta)
    if C.astray then return M.reset_ms(C, now, meta) end
    local window_us = C.limit.window_us
    local free_us = C.blind and meta.start_us + window_us or 0
    local short = C.count + cost - C.most
    for index = 1, #C.times do
      if short <= 0 then break end
      free_us = max(free_us, C.times[index] + window_us)
      short = short - C.tokens[index]
    end
    return ms_until(free_us, now)
  end

  -- A counter that keeps nothing, but was given a share, is written too.
  local function newest_of(C)
    local size = #C.times
    if size == 0 then return stamp(C.now, C.limit.window_us), 0 end
    return C.times[size], C.tokens[size]
  end

  function M.state(C)
    local newest_us, newest_tokens = newest_of(C)
    local numbers, size = {}, #C.times
    for index = 1, size - 1 do
      numbers[2 * index - 1], numbers[2 * index] = C.times[index], C.tokens[index]
    end
    return newest_us, newest_tokens, 0, pack('<' .. string.rep('dd', max(0, size - 1)), unpack(numbers))
  end

  function M.keep_ms(C, now)
    return ms_until(newest_of(C) + C.limit.window_us, now) + 1000
  end

  function M.must_renew(C)
    return newest_of(C) ~= C.was_newest_us
  end

  return M
end

local M = sliding_by(last_of, nil, function(C, at_us)
  local stamped_us = last_of(at_us, C.limit.window_us)
  for index = 1, #C.times do
    if C.times[index] == stamped_us then return index end
  end
end)
M.sliding_by = sliding_by
return M
