--[[
Frees what holders hold of concurrency limits.

KEYS[1] meta of the slot group
KEYS[2...] counters, each once
ARGV[1] version of the policies that the checks were matched with
ARGV[2] limits, packed (LIMIT_FORMAT)
ARGV[3] releases, packed as the checks of check.lua; their costs mean nothing, and limits of another algorithm are passed
        over

Reply: packed doubles, for each target: tokens that were free again, 0 where the holder held none. Or one of STALE,
NOT_SERVED, OTHER_SERVER; then nothing was changed.
Atomic because an acquisition between the reading and the writing would be forgotten.
]]
-- SERVER_ID, the replication id under which it may run, is put in front when the script is loaded.
local FIRST_COUNTER = 1

local values = redis.call('MGET', unpack(KEYS))
local meta = read_meta(values[1])
if not meta or not meta.serving then return NOT_SERVED end
if not is_server(SERVER_ID) then return OTHER_SERVER end
if tonumber(ARGV[1]) < meta.version then return STALE end

local now = now_us()
local limits = read_limits(ARGV[2])
local releases = ARGV[3]
local counters, freed = {}, {}

local function release(L, index, holder)
  local C = counters[index] or load_counter(values[FIRST_COUNTER + index], L, meta, now)
  if not C then return nil end
  counters[index] = C
  local tokens = C.rules.release(C, holder)
  if tokens then C.dirty = true end
  return tokens or 0
end

local position, size = 1, #releases
while position <= size do
  local _, count
  _, count, position = unpack_from('<dd', releases, position)
  for _ = 1, count do
    local limit, index
    limit, index, position = unpack_from('<dd', releases, position)
    local tokens = 0
    if limits[limit].algorithm == CONCURRENCY then
      local one, two, three, four
      one, two, three, four, position = unpack_from('<dddd', releases, position)
      tokens = release(limits[limit], index, pack(HOLDER_FORMAT, one, two, three, four))
      if not tokens then return STALE end
    end
    freed[#freed + 1] = tokens
  end
end

for index, C in pairs(counters) do
  if C.dirty then store_counter(KEYS[FIRST_COUNTER + index], C, meta, now) end
end
return pack('<' .. string.rep('d', #freed), unpack(freed))
