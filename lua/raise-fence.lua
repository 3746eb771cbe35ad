--[[
Gives a fence above every one that was given out.

KEYS[1] fence of the region
ARGV[1] a fence that is known to have been given out, or 0

Reply: the new fence.
Atomic because two daemons must not be given the same.

Not below the clock's milliseconds: a Redis that lost its data and kept running would otherwise count from one again,
give a late write of a daemon from before the fence that is in force now, and date the region's records before those
that its peers have heard.
]]
local time = redis.call('TIME')
local now_ms = math.floor(time[1] * 1000 + time[2] / 1000)
local fence = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') + 1, tonumber(ARGV[1]) + 1, now_ms)
redis.call('SET', KEYS[1], string.format('%.0f', fence))
return fence
