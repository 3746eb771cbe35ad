--[[
Takes or renews the leadership of the region.

KEYS[1] leader
ARGV[1] holder, a name that no two processes share
ARGV[2] time for which it is held, ms

Reply: 1 when the holder leads now, 0 while another does.
Atomic because two daemons that both find the key absent must not both lead.
]]
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
