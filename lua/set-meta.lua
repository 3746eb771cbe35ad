--[[
Changes the meta of a slot group: the boot, the policy version, whether checks are served. '' leaves a field as it is.

KEYS[1] meta of the slot group
ARGV[1] fence
ARGV[2] replication id
ARGV[3] incarnation
ARGV[4] levels: empty (buckets start at zero now, running windows count as full) or full
ARGV[5] recovering, 0 or 1
ARGV[6] serving, 0 or 1
ARGV[7] policy version

Reply: packed doubles: the instant in us, and the instant at which levels start. Or FENCED or OTHER_SERVER.
Atomic because each batch of checks must see one consistent meta.
]]
local meta = read_meta(redis.call('GET', KEYS[1]))
if not meta or meta.fence ~= tonumber(ARGV[1]) then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local now = now_us()
local start_us
if ARGV[4] == 'empty' then start_us = now end
if ARGV[4] == 'full' then start_us = 0 end
local function flag(text)
  if text ~= '' then return text == '1' end
end

write_meta(KEYS[1], meta, {
  incarnation = tonumber(ARGV[3]), start_us = start_us, recovering = flag(ARGV[5]), serving = flag(ARGV[6]),
  version = tonumber(ARGV[7]),
})
return pack('<dd', now, start_us or meta.start_us)
