--[[
What several scripts share: how a counter is read, changed and stored, and how totals are kept. Follows _prelude.lua
in front of a script.

A counter in work is a table C. Fields of both algorithms: limit, stored (a state was found), tracked (it has a valid
share of its own), left (whole tokens), most (whole tokens that its share gives at once), astray (in the future),
dirty. Buckets: fraction, last_us, terms. Windows: count, previous, start_us, unknown. Tracked: admitted, denied,
returned, home, borrowed, exp_us, pinned.
]]

-- Redis refuses an expiry that overflows; this is beyond any window.
local KEEP_MS_MAX = 9e15
-- A tracked counter stays this much longer, so that it outlives the pause in which its daemon restarts.
local TRACKED_KEEP_MS = 600000

-- Totals are kept in a ring of windows for each limit, and once over all time. Each entry begins with a mark: the
-- window's index, or the second in which the hash's expiry was set.
local RING_WINDOWS = 64
local TOTALS_FORMAT = '<dddd' -- mark, admitted, denied, returned
local TOTALS_KEEP_S = 604800
local TOTALS_RENEW_S = 3600

local function read_tail(C, text, meta)
  local admitted, denied, returned, boot, home, borrowed, exp_us, pinned =
    unpack_from(TAIL_FORMAT, text, COUNTER_SIZE + 1)
  -- A share of an earlier boot was not written again, so it holds no more.
  if boot ~= meta.boot then return end
  C.tracked, C.pinned = true, pinned == 1
  C.admitted, C.denied, C.returned = admitted, denied, returned
  C.home, C.borrowed, C.exp_us = home, borrowed, exp_us
end

--- Reads a counter's value (false: none) and settles it; nil when its state is newer than the limit given.
local function load_counter(text, L, meta, now)
  -- All fields at once: a table that grows by assignment is allocated several times over.
  local C = {
    limit = L, stored = false, tracked = false, in_place = false, dirty = false, astray = false, noted = false,
    left = 0, most = 0, fraction = 0, last_us = 0, terms = nil, expiry_set = 0, held = 0, passes = false,
  }
  local version, a, b, c
  local size = text and #text or 0
  if size == COUNTER_SIZE or size == TRACKED_SIZE then
    local algorithm
    algorithm, version, a, b, c, C.expiry_set = unpack_from(COUNTER_FORMAT, text)
    -- A limit that changed its algorithm begins afresh.
    C.stored = algorithm == L.algorithm
    if C.stored and version > L.version then return nil end
    if size == TRACKED_SIZE then read_tail(C, text, meta) end
    -- Where the shape stays, it can be written over in place.
    C.in_place = C.stored and version == L.version and (size == TRACKED_SIZE) == C.tracked
  end
  if L.is_bucket then
    settle_bucket(C, meta, now, version, a, b, c)
  else
    settle_window(C, meta, now, a, b, c)
  end
  return C
end

local function take(C, cost)
  C.left = C.left - cost
  if C.count then C.count = C.count + cost end
  C.dirty = true
end

-- Moves a counter that lies in the future (the clock was set back) to the present; done by a denial.
local function heal(C, meta, now)
  local L = C.limit
  if L.is_bucket then
    C.last_us = max(now, meta.start_us)
  else
    C.start_us = floor(now / L.window_us) * L.window_us
    C.previous, C.same_window = C.count, false
    C.unknown = C.start_us < meta.start_us
    if C.unknown then C.left = 0 end
  end
  C.astray, C.dirty = false, true
end

-- How long a counter must be kept, ms: until it is as if it had never been used.
local function bucket_keep_ms(L)
  if not L.keep_ms then
    L.keep_ms = min(ceil((L.burst / L.capacity) * (L.window_us / 1000) * 1.4) + 2000, KEEP_MS_MAX)
  end
  return L.keep_ms
end

local function keep_ms(C, now)
  local L = C.limit
  local extra = C.tracked and TRACKED_KEEP_MS or 0
  if L.is_bucket then return bucket_keep_ms(L) + extra end
  return ceil((C.start_us + L.window_us - now) / 1000) + 1000 + extra
end

-- Whether a bucket's expiry, set in the second `set_s`, no longer covers the time to keep: a quarter has passed.
local function is_aged(L, set_s, now)
  local age = floor(now / 1000000) - set_s
  if age == 0 then return false end
  return age < 0 or age >= floor(bucket_keep_ms(L) / 4000)
end

local function state_of(C)
  if C.count then return C.start_us, C.count, C.previous end
  return C.left, C.fraction, C.last_us
end

-- Stores a counter whole, with a new expiry.
local function write_counter(key, C, meta, now)
  local L = C.limit
  local a, b, c = state_of(C)
  local text = pack(COUNTER_FORMAT, L.algorithm, L.version, a, b, c, floor(now / 1000000))
  if C.tracked then
    text = text .. pack(TAIL_FORMAT, C.admitted, C.denied, C.returned, meta.boot, C.home, C.borrowed, C.exp_us,
      C.pinned and 1 or 0)
  end
  if C.pinned then
    redis.call('SET', key, text)
  else
    redis.call('SET', key, text, 'PX', integer(keep_ms(C, now)))
  end
end

-- Stores what a check changes. SETRANGE keeps the expiry and is the cheaper by far.
local function store_counter(key, C, meta, now)
  -- A window's expiry is set once for each window.
  local is_renewed = C.count and not C.same_window or not C.count and is_aged(C.limit, C.expiry_set, now)
  if not C.in_place or (is_renewed and not C.pinned) then return write_counter(key, C, meta, now) end
  local a, b, c = state_of(C)
  if C.tracked then
    redis.call('SETRANGE', key, STATE_OFFSET,
      pack(TRACKED_STATE_FORMAT, a, b, c, C.expiry_set, C.admitted, C.denied, C.returned))
  else
    redis.call('SETRANGE', key, STATE_OFFSET, pack(STATE_FORMAT, a, b, c))
  end
end

local function totals_field(L)
  return integer(L.id) .. '.' .. integer(L.usage_epoch)
end

-- Adds L.admitted, L.denied and L.returned to the totals of each limit, in the window that contains `at_us` and over
-- all time. A window that its ring has passed already is not opened again.
local function add_totals(key, limits, at_us, now)
  local fields, touched = {}, {}
  for _, L in ipairs(limits) do
    if L.admitted > 0 or L.denied > 0 or L.returned > 0 then
      local field, window = totals_field(L), floor(at_us / L.usage_window_us)
      touched[#touched + 1] = { L, window }
      fields[#fields + 1] = field
      fields[#fields + 1] = field .. ':' .. integer(window % RING_WINDOWS)
    end
  end
  if #touched == 0 then return end
  local texts = redis.call('HMGET', key, unpack(fields))
  local second, renew = floor(now / 1000000), false
  local writes = {}
  local function write(index, mark, L, admitted, denied, returned)
    writes[#writes + 1] = fields[index]
    writes[#writes + 1] = pack(TOTALS_FORMAT, mark, min(admitted + L.admitted, TOKENS_MAX),
      min(denied + L.denied, TOKENS_MAX), min(returned + L.returned, TOKENS_MAX))
  end
  for index, entry in ipairs(touched) do
    local L, window = entry[1], entry[2]
    local mark, admitted, denied, returned = 0, 0, 0, 0
    if texts[2 * index - 1] then mark, admitted, denied, returned = unpack_from(TOTALS_FORMAT, texts[2 * index - 1]) end
    if second - mark >= TOTALS_RENEW_S or second < mark then mark, renew = second, true end
    write(2 * index - 1, mark, L, admitted, denied, returned)
    mark, admitted, denied, returned = window, 0, 0, 0
    if texts[2 * index] then
      local found, a, d, r = unpack_from(TOTALS_FORMAT, texts[2 * index])
      if found >= window then mark, admitted, denied, returned = found, a, d, r end
    end
    if mark == window then write(2 * index, mark, L, admitted, denied, returned) end
  end
  redis.call('HSET', key, unpack(writes))
  if renew then redis.call('EXPIRE', key, TOTALS_KEEP_S) end
end
