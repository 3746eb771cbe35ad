--[[
Takes back what an enforcer did not spend of a lease.

KEYS[1] meta of the slot group
KEYS[2] usage totals of the slot group
KEYS[3] the counter
KEYS[4] the lease
ARGV[1] version of the policies that the limit is of
ARGV[2] the limit, packed (LIMIT_FORMAT)
ARGV[3] tokens that are left of it

Reply: 0, or one of STALE, NOT_SERVED, OTHER_SERVER, OTHER_TIME; then nothing was changed.
Atomic because a lease must be credited once, and never after its life.

A lease that is gone, or whose counter is, is not credited. It is deleted last: where Redis refuses to write, it stays
and nothing was credited.
]]
-- SERVER_ID, the replication id under which it may run, is put in front when the script is loaded.
local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or not meta.serving then return NOT_SERVED end
if not is_server(SERVER_ID) then return OTHER_SERVER end
if tonumber(ARGV[1]) < meta.version then return STALE end
if not values[4] then return 0 end

local now = now_us()
local granted, at_us = unpack_from(LEASE_FORMAT, values[4])
local limits = read_limits(ARGV[2])
if is_other_time(limits, now) then return OTHER_TIME end
local L = limits[1]
local C = load_counter(values[3], L, meta, now)
if not C then return STALE end

local tokens = min(tonumber(ARGV[3]), granted)
if now >= at_us and at_us >= meta.start_us and C.stored then
  C.rules.return_lease(C, now, tokens, at_us)
  L.returned = tokens
  if C.tracked then C.returned = min(C.returned + tokens, TOKENS_MAX) end
  store_counter(KEYS[3], C, meta, now)
  tell(GROWN .. string.sub(KEYS[3], 3))
  add_totals(KEYS[2], limits, at_us, now)
end
redis.call('DEL', KEYS[4])
return 0
