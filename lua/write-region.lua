--[[
Writes fields of one of the region's hashes.

KEYS[1] fence of the region
KEYS[2] hash
ARGV[1] fence
ARGV[2] replication id
ARGV[3...] field and value, in turn

Reply: 0, or FENCED or OTHER_SERVER.
Atomic because a daemon that has been fenced must not write after its successor has read.
]]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
return 0
