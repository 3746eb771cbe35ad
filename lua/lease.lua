--[[
Leases a block of a counter's tokens to an enforcer, which spends them without asking again.

KEYS[1] meta of the slot group
KEYS[2] hot set: counters that ran low and are not tracked
KEYS[3] usage totals of the slot group
KEYS[4] the counter
KEYS[5] the lease, under an id that was never used before
ARGV[1] version of the policies that the limit is of
ARGV[2] the limit, packed (LIMIT_FORMAT)
ARGV[3] tokens wanted, at least 1

Reply: packed doubles: tokens of the block (0: none at present, -1: the limit holds too little to be leased), the
instant in us, how long they may be spent in us, whole tokens left of the counter, ms to its reset. Or one of STALE,
NOT_SERVED, OTHER_SERVER, OTHER_TIME; then nothing was changed.
Atomic because the block must be debited before anybody else reads the counter, and because what was granted decides
what the bucket may hold.
]]
-- SERVER_ID, the replication id under which it may run, is put in front when the script is loaded.
local TOO_SMALL = -1

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or not meta.serving then return NOT_SERVED end
if not is_server(SERVER_ID) then return OTHER_SERVER end
if tonumber(ARGV[1]) < meta.version then return STALE end

local now = now_us()
local limits = read_limits(ARGV[2])
if is_other_time(limits, now) then return OTHER_TIME end
local L = limits[1]
local C = load_counter(values[4], L, meta, now)
if not C then return STALE end

local tokens, life_us, keep_us
if not C.astray and C.rules.lease then tokens, life_us, keep_us = C.rules.lease(C, meta, now, tonumber(ARGV[3])) end
if not tokens then return pack('<ddddd', TOO_SMALL, now, 0, 0, 0) end
if tokens > 0 then
  L.admitted = tokens
  if C.tracked then C.admitted = min(C.admitted + tokens, TOKENS_MAX) end
  store_counter(KEYS[4], C, meta, now)
  redis.call('SET', KEYS[5], pack(LEASE_FORMAT, tokens, now), 'PX', keep_us / 1000)
  add_totals(KEYS[3], limits, now, now)
end
if not C.tracked and C.left * LOW_OF < C.most * LOW_PARTS then note_hot(KEYS[2], { string.sub(KEYS[4], 3) }) end
return pack('<ddddd', tokens, now, life_us, C.left, C.rules.reset_ms(C, now, meta))
