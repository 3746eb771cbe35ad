--[[
What several scripts share: the packed formats, and the arithmetic that all algorithms share. Put in front of a script
when it is loaded; scripts that touch counters have the algorithms and _counters.lua after it.

The arithmetic is that of shared/core/algorithms, operation by operation, so that both give the same doubles; a
test compares them. The formats are those of shared/redis/layout.ts. All numbers are doubles: exact for
integers to 2^53, which holds microseconds since 1970 and every token count.
]]
local floor, ceil, max, min, abs = math.floor, math.ceil, math.max, math.min, math.abs
local pack, unpack_from = struct.pack, struct.unpack

local POOL_UNITS = 1000000
local ROUNDING_NUMERATOR = 15624
local BURST_FRACTION = 8
local FRACTION_TOKENS_MAX = 562949953421312
local TOKENS_MAX = 9007199254740991

-- Meta of a slot group. The layout number lets scripts of another version refuse to read what they do not know.
local META_LAYOUT = 3
local META_FORMAT = '<BdddddBB' -- layout, fence, boot, incarnation, startUs, policyVersion, recovering, serving
local COUNTER_FORMAT = '<BddddI4' -- algorithm, version, a, b, c, second in which the expiry was set
local COUNTER_SIZE = 37
local TAIL_FORMAT = '<ddddI4I4dB' -- admitted, denied, returned, boot, home, borrowed, expUs, pinned
-- The parts that a check changes; they follow one another from STATE_OFFSET on.
local STATE_OFFSET = '9'
local STATE_FORMAT = '<ddd'
local TRACKED_STATE_FORMAT = '<dddI4ddd'
local TRACKED_SIZE = 86
local TRACKED_MARK = 128
local LIMIT_FORMAT = '<dddddddddddddddddddddd'

-- Leases: shared/core/lease.ts. A block is void after LEASE_US; the lease itself says when it was granted.
local LEASE_US = 100000
local LEASE_TOKENS_MIN = 10
-- What is left of a window's block may come back later than it may be spent, since it stays counted until then.
local WINDOW_RETURN_US = 2000000
local LEASE_FORMAT = '<dd' -- tokens, instant of the grant in us

-- Redis refuses an expiry that overflows; this is beyond any window.
local KEEP_MS_MAX = 9e15

-- Codes of the algorithms: _token-bucket.lua and so on (shared/redis/scripts.ts). Those of 0 and 2 have a burst.
local TOKEN_BUCKET, LEAKY_BUCKET, SLIDING_WINDOW, CONCURRENCY = 0, 2, 3, 6
-- From here on they are of limits that have no shares: _stock.lua and _estimate.lua.
local SHARELESS = 16
local HOLDER_FORMAT = '<I4I4I4I4'

-- Replies in place of a result. None of them has changed anything.
local STALE, NOT_SERVED, OTHER_SERVER, BAD_INPUT, FENCED, OTHER_TIME = 1, 2, 3, 4, 5, 6

local SNAP_TOKENS_MAX = 1e-9

-- Most counters that wait in one hot set; a reader takes them out. Beyond it they are noted by a later check.
local HOT_MAX = 4096
local HOT_TTL_S = 600
-- A counter is noted once it has less than this left of its share.
local LOW_PARTS, LOW_OF = 3, 10

-- Totals are kept in a ring of windows for each limit, and once over all time. Each entry begins with a mark: the
-- window's index, or the second in which the hash's expiry was set.
local RING_WINDOWS = 64
local TOTALS_FORMAT = '<dddd' -- mark, admitted, denied, returned
local TOTALS_KEEP_S = 604800
local TOTALS_RENEW_S = 3600

-- Names the window entries that changed since the daemon last read, so that it need not read those of every limit.
-- Nothing is searched for long: beyond CHANGED_MAX it says "any", and the daemon reads all.
local CHANGED, CHANGED_MAX, ANY_CHANGED = 'changed', 16384, '*'

-- Where enforcers hear what they cannot know otherwise: GROWN and its id: a counter may admit more than it said;
-- POLICIES: there are others. A user of Redis who may not publish only leaves them to find out by themselves.
local NEWS, GROWN, POLICIES = 'qp:news', '+', 'p'

local function tell(message)
  redis.pcall('PUBLISH', NEWS, message)
end

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

-- Whether this server still has a replication id under which it was opened. A server that was demoted, synchronised
-- and promoted again keeps its script cache but has another history. Of a cluster the ids of all masters are given, for
-- a slot may move from one to another.
local function is_server(replication_ids)
  local id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
  return id ~= nil and string.find(replication_ids, id, 1, true) ~= nil
end

--- All limits of a packed string, as tables.
local function read_limits(text)
  local limits, count, position = {}, 0, 1
  while position <= #text do
    local algorithm, id, usage_epoch, version, capacity, window_us, burst, home, changed_us, idle_tokens,
      idle_us, usage_window_us, previous_version, previous_capacity, previous_window_us, previous_burst, previous_home,
      before_us, last_us, begin_us, end_us, next_end_us, next_position = unpack_from(LIMIT_FORMAT, text, position)
    position = next_position
    count = count + 1
    limits[count] = {
      algorithm = algorithm, id = id, usage_epoch = usage_epoch,
      version = version, capacity = capacity, window_us = window_us, burst = burst, home = home,
      changed_us = changed_us, idle_tokens = idle_tokens, idle_us = idle_us,
      usage_window_us = usage_window_us, previous_version = previous_version,
      previous_capacity = previous_capacity, previous_window_us = previous_window_us,
      previous_burst = previous_burst, previous_home = previous_home,
      most = (algorithm == TOKEN_BUCKET or algorithm == LEAKY_BUCKET) and burst or capacity,
      admitted = 0, denied = 0, returned = 0, terms = nil, keep_ms = nil, window_tokens = nil,
      -- Of a calendar: beginnings of four windows in a row, the third of them now, and the end of the last.
      edges = begin_us > 0 and { before_us, last_us, begin_us, end_us, next_end_us } or nil,
    }
  end
  return limits
end

-- Whether the caller's clock is so far off that the windows it gave of a calendar do not hold the present one.
local function is_other_time(limits, now)
  for index = 1, #limits do
    local edges = limits[index].edges
    if edges and (now < edges[2] or now >= edges[5]) then return true end
  end
  return false
end

-- Of any double, also one that is no number.
local function is_whole(number)
  return number >= 0 and number <= TOKENS_MAX and floor(number) == number
end

local function share_tokens(capacity, units)
  local high = floor(capacity / POOL_UNITS)
  local low = capacity - high * POOL_UNITS
  return high * units + floor((low * units + ROUNDING_NUMERATOR) / POOL_UNITS)
end

local function share_burst(burst, units)
  local high = floor(burst / POOL_UNITS)
  local low = burst - high * POOL_UNITS
  local eighths = floor((low * BURST_FRACTION * units + ROUNDING_NUMERATOR) / POOL_UNITS)
  local whole = high * units
  if whole >= FRACTION_TOKENS_MAX then return whole + floor(eighths / BURST_FRACTION) end
  return whole + eighths / BURST_FRACTION
end

-- Units that a counter may use just after an instant. While recovering, and of a share that is not known: none.
local function units_at(C, meta, numbers_home, at_us)
  if meta.recovering or C.corrupt then return 0 end
  local home = C.tracked and C.home or numbers_home
  if C.tracked and at_us < C.exp_us then return home + C.borrowed end
  return home
end

-- Tokens of a block of `wanted`; nil where too little may be held.
local function block_of(wanted, most, left)
  if most < 2 * LEASE_TOKENS_MIN then return nil end
  return max(0, min(wanted, floor(most / 2), ceil(left / 2)))
end

-- How long a block may be spent: its own life, or that of the borrowed part of the share.
local function lease_life_us(C, now)
  if C.tracked and C.borrowed > 0 and now < C.exp_us then return min(LEASE_US, C.exp_us - now) end
  return LEASE_US
end
