--[[
Replaces what changed of the region's policies, all in one step, so that a reader never sees half of a change.

KEYS[1] fence of the region
KEYS[2] region
KEYS[3] the plane's policies
KEYS[4] the region's policies
KEYS[5] versions of the region's policies
ARGV[1] fence
ARGV[2] replication id
ARGV[3] version of the region's policies that they have by this
ARGV[4] number of fields of the region that follow
ARGV[5] number of the plane's policies that follow
ARGV[6] number of the plane's removed policies that follow
ARGV[7] number of the region's policies that follow
ARGV[8] number of the region's removed policies that follow
ARGV[9...] in that order: field and value of what is set, the id of what is removed

Reply: 0, or FENCED or OTHER_SERVER.
Atomic because version and policies must change together.
]]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

-- Values of one call: Lua hands over at most some 8,000, and a call for each would hold up checks several times as long.
local VALUES_MAX = 1000
local position = 9
local function send(command, key, count)
  local last = position + count - 1
  while position <= last do
    local to = min(position + VALUES_MAX - 1, last)
    redis.call(command, key, unpack(ARGV, position, to))
    position = to + 1
  end
end

-- Which version of the region's policies each of them, or its removal, is of: what a reader of an earlier one lacks.
local function date(count, step)
  local pairs_of_zadd = {}
  for index = 0, count - 1 do
    pairs_of_zadd[#pairs_of_zadd + 1] = ARGV[3]
    pairs_of_zadd[#pairs_of_zadd + 1] = ARGV[position + index * step]
    if #pairs_of_zadd == VALUES_MAX or index == count - 1 then
      redis.call('ZADD', KEYS[5], unpack(pairs_of_zadd))
      pairs_of_zadd = {}
    end
  end
end
local function begin_versions()
  redis.call('DEL', KEYS[5])
  redis.call('HSET', KEYS[2], 'versionsSince', ARGV[3])
end

-- A daemon that does not keep them was here, or this Redis is new.
local known = redis.call('HMGET', KEYS[2], 'version', 'versionsAt')
if not known[2] or known[1] ~= known[2] then begin_versions() end

local set, removed = tonumber(ARGV[7]), tonumber(ARGV[8])
send('HSET', KEYS[2], 2 * tonumber(ARGV[4]))
send('HSET', KEYS[3], 2 * tonumber(ARGV[5]))
send('HDEL', KEYS[3], tonumber(ARGV[6]))
date(set, 2)
send('HSET', KEYS[4], 2 * set)
date(removed, 1)
send('HDEL', KEYS[4], removed)
-- Removals stay in it, so that readers learn of them; it is begun anew before they are most of it.
if redis.call('ZCARD', KEYS[5]) > 2 * redis.call('HLEN', KEYS[4]) + 1000 then begin_versions() end
redis.call('HSET', KEYS[2], 'versionsAt', ARGV[3])
tell(POLICIES)
return 0
