--[[
Changes the meta of a slot group. '' leaves a field as it is.

KEYS[1] meta of the slot group
ARGV[1] fence
ARGV[2] replication id
ARGV[3] recovering, 0 or 1
ARGV[4] serving, 0 or 1
ARGV[5] policy version

Reply: the instant in us, as a packed double. Or FENCED or OTHER_SERVER.
Atomic because each batch of checks must see one consistent meta.
]]
local meta = read_meta(redis.call('GET', KEYS[1]))
if not meta or meta.fence ~= tonumber(ARGV[1]) then return FENCED end
if not is_server(ARGV[2]) then return OTHER_SERVER end

local function flag(text)
  if text ~= '' then return text == '1' end
end
write_meta(KEYS[1], meta, {
  recovering = flag(ARGV[3]), serving = flag(ARGV[4]), version = tonumber(ARGV[5]),
})
return pack('<d', now_us())
