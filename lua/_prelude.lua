--[[
What several scripts share: the packed formats and the arithmetic of the algorithms. Put in front of a script when
it is loaded, followed by _counters.lua.

The arithmetic is that of shared/core/algorithms, operation by operation, so that both give the same doubles; a
test compares them. The formats are those of shared/redis/layout.ts. All numbers are doubles: exact for
integers to 2^53, which holds microseconds since 1970 and every token count.
]]
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local pack, unpack_from = struct.pack, struct.unpack

local POOL_UNITS = 1000000
local ROUNDING_NUMERATOR = 15624
local BURST_FRACTION = 8
local SNAP_TOKENS_MAX = 1e-9
local EDGE_US = 100000
local TOKENS_MAX = 9007199254740991

-- Meta of a slot group. The layout number lets scripts of another version refuse to read what they do not know.
local META_LAYOUT = 2
local META_FORMAT = '<BdddddBB' -- layout, fence, boot, incarnation, startUs, policyVersion, recovering, serving
local COUNTER_FORMAT = '<BddddI4' -- algorithm, version, a, b, c, second in which the expiry was set
local COUNTER_SIZE = 37
local TAIL_FORMAT = '<ddddI4I4dB' -- admitted, denied, returned, boot, home, borrowed, expUs, pinned
-- The parts that a check changes; they follow one another from STATE_OFFSET on.
local STATE_OFFSET = '9'
local STATE_FORMAT = '<ddd'
local TRACKED_STATE_FORMAT = '<dddI4ddd'
local TRACKED_SIZE = 86
local LIMIT_FORMAT = '<ddddddddddddddddd'
local TOKEN_BUCKET = 0

-- Replies in place of a result. None of them has changed anything.
local STALE, NOT_SERVED, OTHER_SERVER, BAD_INPUT, FENCED = 1, 2, 3, 4, 5

local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Integers as text without an exponent, which tostring would use.
local function integer(number)
  return string.format('%.0f', number)
end

--- The meta of a slot group as a table, or nil where it is absent or of another layout.
local function read_meta(text)
  if not text or string.byte(text) ~= META_LAYOUT then return nil end
  local _, fence, boot, incarnation, start_us, version, recovering, serving = unpack_from(META_FORMAT, text)
  return {
    fence = fence, boot = boot, incarnation = incarnation, start_us = start_us, version = version,
    recovering = recovering == 1, serving = serving == 1,
  }
end

local function new_meta()
  return { fence = 0, boot = 0, incarnation = 0, start_us = 0, version = 0, recovering = false, serving = false }
end

-- Stores a meta with the fields of `changes` in place of its own; nil fields stay.
local function write_meta(key, meta, changes)
  for field, value in pairs(changes) do meta[field] = value end
  redis.call('SET', key, pack(META_FORMAT, META_LAYOUT, meta.fence, meta.boot, meta.incarnation, meta.start_us,
    meta.version, meta.recovering and 1 or 0, meta.serving and 1 or 0))
end

-- Whether this server still has the replication id under which it was opened. A server that was demoted,
-- synchronised and promoted again keeps its script cache but has another history.
local function is_server(replication_id)
  return string.find(redis.call('INFO', 'replication'), 'master_replid:' .. replication_id, 1, true) ~= nil
end

--- All limits of a packed string, as tables.
local function read_limits(text)
  local limits, count, position = {}, 0, 1
  while position <= #text do
    local algorithm, id, usage_epoch, version, capacity, window_us, burst, home, changed_us, idle_tokens,
      idle_us, usage_window_us, previous_version, previous_capacity, previous_window_us, previous_burst, previous_home,
      next_position = unpack_from(LIMIT_FORMAT, text, position)
    position = next_position
    count = count + 1
    limits[count] = {
      is_bucket = algorithm == TOKEN_BUCKET, algorithm = algorithm, id = id, usage_epoch = usage_epoch,
      version = version, capacity = capacity, window_us = window_us, burst = burst, home = home,
      changed_us = changed_us, idle_tokens = idle_tokens, idle_us = idle_us,
      usage_window_us = usage_window_us, previous_version = previous_version,
      previous_capacity = previous_capacity, previous_window_us = previous_window_us,
      previous_burst = previous_burst, previous_home = previous_home,
      most = algorithm == TOKEN_BUCKET and burst or capacity,
      admitted = 0, denied = 0, returned = 0, terms = nil, keep_ms = nil,
    }
  end
  return limits
end

local function share_tokens(capacity, units)
  local high = floor(capacity / POOL_UNITS)
  local low = capacity - high * POOL_UNITS
  return high * units + floor((low * units + ROUNDING_NUMERATOR) / POOL_UNITS)
end

local function share_burst(burst, units)
  local high = floor(burst / POOL_UNITS)
  local low = burst - high * POOL_UNITS
  return high * units + floor((low * BURST_FRACTION * units + ROUNDING_NUMERATOR) / POOL_UNITS) / BURST_FRACTION
end

-- Rate, size and snap of a bucket under some numbers and units.
local function bucket_terms(capacity, window_us, burst, units)
  local rate = (capacity * units) / (POOL_UNITS * window_us)
  local cap = share_burst(burst, units)
  local whole = floor(cap)
  return { rate = rate, cap_whole = whole, cap_fraction = cap - whole, snap = min(SNAP_TOKENS_MAX, rate / 2) }
end

-- Units that a counter may use just after an instant. While recovering: none.
local function units_at(C, meta, numbers_home, at_us)
  if meta.recovering then return 0 end
  local home = C.tracked and C.home or numbers_home
  if C.tracked and at_us < C.exp_us then return home + C.borrowed end
  return home
end

local function clamp(whole, fraction, terms)
  local cap_whole = terms.cap_whole
  if whole > cap_whole or (whole == cap_whole and fraction > terms.cap_fraction) then
    return cap_whole, terms.cap_fraction
  end
  return whole, fraction
end

local function advance(whole, fraction, elapsed_us, terms)
  if elapsed_us <= 0 then return whole, fraction end
  local added = elapsed_us * terms.rate
  local added_whole = floor(added)
  whole = whole + added_whole
  fraction = fraction + (added - added_whole)
  if fraction >= 1 then
    whole = whole + 1
    fraction = fraction - 1
  end
  if 1 - fraction <= terms.snap then
    whole = whole + 1
    fraction = 0
  end
  return clamp(whole, fraction, terms)
end

-- Refills under one set of numbers, the borrowed part only while it may be used.
local function refill_under(C, meta, capacity, window_us, burst, home, from_us, to_us)
  local exp_us = C.tracked and C.exp_us or 0
  if from_us < exp_us then
    local until_us = min(exp_us, to_us)
    C.left, C.fraction = advance(C.left, C.fraction, until_us - from_us,
      bucket_terms(capacity, window_us, burst, units_at(C, meta, home, from_us)))
    from_us = until_us
  end
  if from_us < to_us then
    C.left, C.fraction = advance(C.left, C.fraction, to_us - from_us,
      bucket_terms(capacity, window_us, burst, units_at(C, meta, home, from_us)))
  end
end

-- The terms of an untracked counter, worked out once a call.
local function cold_terms(L, meta)
  if not L.terms then
    local units = meta.recovering and 0 or L.home
    L.terms = bucket_terms(L.capacity, L.window_us, L.burst, units)
  end
  return L.terms
end

local function terms_now(C, meta, now)
  local L = C.limit
  if not C.tracked then return cold_terms(L, meta) end
  return bucket_terms(L.capacity, L.window_us, L.burst, units_at(C, meta, L.home, now))
end

-- Brings a bucket to `now`: C.left and C.fraction are its level, C.last_us the instant that it stands for. Given a
-- stored state, its level and instant; otherwise those of an idle bucket.
local function settle_bucket(C, meta, now, version, whole, fraction, from_us)
  local L = C.limit
  if not C.stored then
    whole = floor(L.idle_tokens)
    version, fraction, from_us = L.version, L.idle_tokens - whole, L.idle_us
  end
  if from_us < meta.start_us then
    whole, fraction, from_us = 0, 0, meta.start_us
  end
  C.last_us = from_us > now and from_us or now
  C.astray = from_us > max(now, meta.start_us) + L.window_us
  local terms = terms_now(C, meta, now)
  C.terms, C.most = terms, terms.cap_whole
  if version ~= L.version or C.tracked then
    C.left, C.fraction = whole, fraction
    if version ~= L.version then
      if version == L.previous_version then
        refill_under(C, meta, L.previous_capacity, L.previous_window_us, L.previous_burst, L.previous_home,
          from_us, min(L.changed_us, now))
      end
      from_us = max(from_us, L.changed_us)
    end
    refill_under(C, meta, L.capacity, L.window_us, L.burst, L.home, from_us, now)
    whole, fraction = C.left, C.fraction
  else
    whole, fraction = advance(whole, fraction, now - from_us, terms)
  end
  C.left, C.fraction = clamp(whole, fraction, terms)
end

-- Brings a window to `now`, given the beginning, count and previous count of a stored state.
local function settle_window(C, meta, now, stored_us, count, previous)
  local L = C.limit
  local window_us = L.window_us
  local start_us = floor(now / window_us) * window_us
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
