--[[
Sliding log: shared/core/algorithms/sliding-log.ts, operation by operation. State: as of a sliding window, each entry at
its own microsecond.
]]
local LOG_ENTRIES_MAX = 256
local CELLS = LOG_ENTRIES_MAX / 2

local function cell_of(at_us, window_us)
  return floor(at_us / ceil(window_us / CELLS))
end

local function stamp(at_us)
  return at_us
end

local function compact(C)
  if #C.times <= LOG_ENTRIES_MAX then return end
  local window_us, times, tokens, size = C.limit.window_us, {}, {}, 0
  for index, at_us in ipairs(C.times) do
    if size > 0 and cell_of(times[size], window_us) == cell_of(at_us, window_us) then
      times[size], tokens[size] = at_us, tokens[size] + C.tokens[index]
    else
      size = size + 1
      times[size], tokens[size] = at_us, C.tokens[index]
    end
  end
  C.times, C.tokens = times, tokens
end

local function find(C, at_us)
  local window_us = C.limit.window_us
  for index, time in ipairs(C.times) do
    -- Later than its own instant only where its cell was joined.
    if time >= at_us then return cell_of(time, window_us) == cell_of(at_us, window_us) and index or nil end
  end
end

return rules_of(SLIDING_WINDOW).sliding_by(stamp, compact, find)
