--[[
Writes fields of one of the region's hashes.

KEYS[1] fence of the region
KEYS[2] hash
ARGV[1] fence
ARGV[2] replication id
ARGV[3] others: keep, or drop those that are not named
ARGV[4...] field and value, in turn

Reply: 0, or FENCED or OTHER_SERVER.
Atomic because a daemon that has been fenced must not write after its successor has read.
]]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local named = {}
for position = 4, #ARGV, 2 do
  named[ARGV[position]] = true
  redis.call('HSET', KEYS[2], ARGV[position], ARGV[position + 1])
end
if ARGV[3] == 'drop' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if not named[field] then redis.call('HDEL', KEYS[2], field) end
  end
end
return 0
