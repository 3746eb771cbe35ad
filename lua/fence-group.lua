--[[
Raises the fence of a slot group: from here on nothing is written under an older one.

KEYS[1] meta of the slot group
ARGV[1] fence

Reply: { 0 or FENCED, packed doubles: the instant in us and the fence that was found, the meta that was found or '' }.
With FENCED a newer fence was found and nothing was changed.
Atomic because a write of the older daemon must come wholly before or be refused.
]]
local fence = tonumber(ARGV[1])
local text = redis.call('GET', KEYS[1])
local meta = read_meta(text)
local found = meta and meta.fence or 0
local facts = pack('<dd', now_us(), found)
if found >= fence then return { FENCED, facts, text } end
write_meta(KEYS[1], meta or new_meta(), { fence = fence })
return { 0, facts, meta and text or '' }
