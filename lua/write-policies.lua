--[[
Replaces what changed of the region's policies, all in one step, so that a reader never sees half of a change.

KEYS[1] fence of the region
KEYS[2] region
KEYS[3] the plane's policies
KEYS[4] the region's policies
ARGV[1] fence
ARGV[2] replication id
ARGV[3] number of fields of the region that follow
ARGV[4] number of the plane's policies that follow
ARGV[5] number of the plane's removed policies that follow
ARGV[6] number of the region's policies that follow
ARGV[7] number of the region's removed policies that follow
ARGV[8...] in that order: field and value of what is set, the id of what is removed

Reply: 0, or FENCED or OTHER_SERVER.
Atomic because version and policies must change together.
]]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local position = 8
local function set(key, count)
  for _ = 1, tonumber(count) do
    redis.call('HSET', key, ARGV[position], ARGV[position + 1])
    position = position + 2
  end
end
local function remove(key, count)
  for _ = 1, tonumber(count) do
    redis.call('HDEL', key, ARGV[position])
    position = position + 1
  end
end

set(KEYS[2], ARGV[3])
set(KEYS[3], ARGV[4])
remove(KEYS[3], ARGV[5])
set(KEYS[4], ARGV[6])
remove(KEYS[4], ARGV[7])
tell(POLICIES)
return 0
