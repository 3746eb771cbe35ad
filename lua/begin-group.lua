--[[
Begins a new boot of a slot group: what was known of shares and loans is forgotten, and checks are not served.

KEYS[1] meta of the slot group
KEYS[2] ledger rows of the slot group
ARGV[1] fence; it becomes the number of the boot
ARGV[2] replication id
ARGV[3] incarnation
ARGV[4] levels: empty (buckets start at zero now, running windows count as full) or full
ARGV[5] recovering, 0 or 1

Reply: packed doubles: the instant in us, and the instant at which levels start. Or FENCED or OTHER_SERVER.
Atomic because a share written before must not count after, and none written after must be lost.
]]
local fence = tonumber(ARGV[1])
local meta = read_meta(redis.call('GET', KEYS[1]))
-- Once under each fence: its number tells the shares of this boot from all others.
if not meta or meta.fence ~= fence or meta.boot == fence then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local now = now_us()
-- What was stored in this very microsecond was stored before.
local start_us = ARGV[4] == 'full' and 0 or now + 1
write_meta(KEYS[1], meta, {
  boot = fence, incarnation = tonumber(ARGV[3]), start_us = start_us, recovering = ARGV[5] == '1', serving = false,
})
redis.call('DEL', KEYS[2])
return pack('<dd', now, start_us)
