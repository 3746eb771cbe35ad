--[[
Gives the leadership of the region up, if it is the holder's still.

KEYS[1] leader
ARGV[1] holder

Reply: 1 when it was given up, 0 when another held it or nobody.
Atomic because the leadership may pass to another between a reading and a deletion.
]]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
