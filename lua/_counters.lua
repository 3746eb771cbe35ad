--[[
What several scripts share: how a counter is read, changed and stored. Follows _prelude.lua, _totals.lua
and the algorithms in front of a script.

A counter in work is a table C. Its fields whatever the algorithm: limit, rules (of its algorithm), stored (a state was
found), tracked (it has a share of its own), corrupt (that share is not known: it admits nothing), left (whole tokens), most (whole tokens that its share gives at
once), astray (in the future), dirty; low, where it has a mark of its own for running low. Tracked: admitted, denied, returned, home, borrowed, exp_us, pinned. All others
belong to its algorithm.

An algorithm is one file that returns a table of functions; `meta` is the slot group's, `now` the instant in us:
  is_sound(a, b, c)  whether a script may have written them: what is corrupt is no state; may be absent
  settle(C, meta, now, version, a, b, c, body)  brings the stored state (where C.stored) to `now`: left, most, astray
  admit_usual(L, meta, now, cost, expiry_set, a, b, c)  for an untracked counter of the present version: tokens left,
      most, ms to the reset and the new state, or nil for everything that is not the usual case; may be absent
  take(C, cost, now, holder), give_back(C, meta, now, cost, at_us, holder)  the latter says whether it credited anything
  resize(C, meta, now, shrinks)  settles on a share that was just put into C; false when that is too small
  heal(C, meta, now)  moves a counter that lies in the future to the present
  reset_ms(C, now, meta), wait_ms(C, now, cost, meta)  the latter nil when never
  state(C)  a, b, c and, of algorithms whose state varies in length, the body
  keep_ms(C, now)  until it is as if it had never been used
  must_renew(C, now)  whether its expiry is to be set again
  lease(C, meta, now, wanted)  debits a block: its tokens (0: none at present), how long it may be spent and how long
      what is left of it may come back, both in us; or nil where the limit holds too little; may be absent
  return_lease(C, now, tokens, at_us)  credits what is left of a block that was granted at `at_us`, if it is in time
  holds(C, holder), release(C, holder)  of algorithms that count holders; `holder` is its id in 16 bytes

A value: COUNTER_FORMAT, of a tracked counter with TRACKED_MARK added to its code and TAIL_FORMAT after it; then the
body.
]]

-- A tracked counter stays this much longer, so that it outlives the pause in which its daemon restarts.
local TRACKED_KEEP_MS = 600000

-- Home units of a share that nobody knows, since what was there is not what a daemon writes.
local CORRUPT_HOME = 4294967295

-- Of a limit that has shares, what is corrupt leaves a share of nothing: its own part may be lent out, and how much of
-- it only the daemon knows, which finds the counter by it and writes the share again. Others go on without.
local function read_tail(C, text, meta, has_shares)
  local admitted, denied, returned, boot, home, borrowed, exp_us, pinned =
    unpack_from(TAIL_FORMAT, text, COUNTER_SIZE + 1)
  local is_sound = is_whole(admitted) and is_whole(denied) and is_whole(returned) and is_whole(exp_us)
    and boot <= meta.boot and (not has_shares or home + borrowed <= POOL_UNITS)
  if not is_sound then
    C.tracked, C.corrupt, C.pinned = has_shares, has_shares, pinned == 1
    C.admitted, C.denied, C.returned = 0, 0, 0
    C.home, C.borrowed, C.exp_us = CORRUPT_HOME, 0, 0
    return
  end
  -- A share of an earlier boot was not written again, so it holds no more.
  if boot ~= meta.boot then return end
  C.tracked, C.pinned = true, pinned == 1
  C.admitted, C.denied, C.returned = admitted, denied, returned
  C.home, C.borrowed, C.exp_us = home, borrowed, exp_us
end

--- Reads a counter's value (false: none) and settles it; nil when its state is newer than what the caller knows.
-- A caller knows the policies of the slot group's version. Of a tenant whose override is long past it has a limit of an
-- older version than the tenant's counter may have.
local function load_counter(text, L, meta, now)
  -- All fields at once: a table that grows by assignment is allocated several times over.
  local C = {
    limit = L, meta = meta, now = now, rules = rules_of(L.algorithm), stored = false, tracked = false,
    in_place = false, dirty = false, astray = false, left = 0, most = 0, fraction = 0, last_us = 0, terms = nil,
    expiry_set = 0, held = 0, passes = false, body = nil, corrupt = false,
  }
  local version, a, b, c
  local size, body = text and #text or 0, ''
  if size >= COUNTER_SIZE then
    local code
    code, version, a, b, c, C.expiry_set = unpack_from(COUNTER_FORMAT, text)
    local has_tail = code >= TRACKED_MARK
    if has_tail then code = code - TRACKED_MARK end
    has_tail = has_tail and size >= TRACKED_SIZE
    -- A limit that changed its algorithm begins afresh.
    local is_sound = C.rules.is_sound
    C.stored = code == L.algorithm and is_whole(version) and (not is_sound or is_sound(a, b, c))
    if C.stored and version > max(L.version, meta.version) then return nil end
    local head_size = COUNTER_SIZE
    if has_tail then
      read_tail(C, text, meta, L.algorithm < SHARELESS)
      head_size = TRACKED_SIZE
    end
    if size > head_size then body = string.sub(text, head_size + 1) end
    -- Where the shape stays, it can be written over in place.
    C.in_place = C.stored and version == L.version and has_tail == C.tracked and not C.corrupt
  end
  C.body = body
  C.rules.settle(C, meta, now, version, a, b, c, body)
  return C
end

local function take(C, cost, now, holder)
  C.rules.take(C, cost, now, holder)
  C.dirty = true
end

-- Moves a counter that lies in the future (the clock was set back) to the present; done by a denial.
local function heal(C, meta, now)
  C.rules.heal(C, meta, now)
  C.astray, C.dirty = false, true
end

local function keep_ms(C, now)
  return C.rules.keep_ms(C, now) + (C.tracked and TRACKED_KEEP_MS or 0)
end

-- Stores a counter whole, with a new expiry.
local function write_counter(key, C, meta, now)
  local L = C.limit
  local a, b, c, body = C.rules.state(C)
  local code = C.tracked and L.algorithm + TRACKED_MARK or L.algorithm
  local text = pack(COUNTER_FORMAT, code, L.version, a, b, c, floor(now / 1000000))
  if C.tracked then
    text = text .. pack(TAIL_FORMAT, C.admitted, C.denied, C.returned, meta.boot, C.home, C.borrowed, C.exp_us,
      C.pinned and 1 or 0)
  end
  if body then text = text .. body end
  if C.pinned then
    redis.call('SET', key, text)
  else
    redis.call('SET', key, text, 'PX', integer(keep_ms(C, now)))
  end
end

-- Stores what a check changes. SETRANGE keeps the expiry and is the cheaper by far.
local function store_counter(key, C, meta, now)
  if not C.in_place or (C.rules.must_renew(C, now) and not C.pinned) then return write_counter(key, C, meta, now) end
  local a, b, c, body = C.rules.state(C)
  if body and body ~= C.body then return write_counter(key, C, meta, now) end
  if C.tracked then
    redis.call('SETRANGE', key, STATE_OFFSET,
      pack(TRACKED_STATE_FORMAT, a, b, c, C.expiry_set, C.admitted, C.denied, C.returned))
  else
    redis.call('SETRANGE', key, STATE_OFFSET, pack(STATE_FORMAT, a, b, c))
  end
end
