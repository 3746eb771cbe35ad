--[[
Gives a fence above every one that was given out.

KEYS[1] fence of the region
ARGV[1] a fence that is known to have been given out, or 0

Reply: the new fence.
Atomic because two daemons must not be given the same.
]]
local fence = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])) + 1
redis.call('SET', KEYS[1], string.format('%.0f', fence))
return fence
