--[[
What several scripts share: how counters that ran low are noted, and how totals are kept. Follows _prelude.lua.
]]
local function note_hot(key, ids)
  if #ids > 0 and redis.call('SCARD', key) < HOT_MAX then
    if redis.call('SADD', key, unpack(ids)) > 0 then redis.call('EXPIRE', key, HOT_TTL_S) end
  end
end

-- `L.field`: where the caller gave the name.
local function totals_field(L)
  return L.field or integer(L.id) .. '.' .. integer(L.usage_epoch)
end

-- See CHANGED.
local function with_changed(changed, field)
  if changed == ANY_CHANGED then return changed end
  if string.find(changed, ',' .. field .. ',', 1, true) then return changed end
  if #changed > CHANGED_MAX then return ANY_CHANGED end
  return changed .. field .. ','
end

-- Adds L.admitted, L.denied and L.returned to the totals of each limit, in the window that contains `at_us` and over
-- all time. A window that its ring has passed already is not opened again.
local function add_totals(key, limits, at_us, now)
  local fields, touched = {}, {}
  for _, L in ipairs(limits) do
    if L.admitted > 0 or L.denied > 0 or L.returned > 0 then
      local field, window = totals_field(L), floor(at_us / L.usage_window_us)
      touched[#touched + 1] = { L, window }
      fields[#fields + 1] = field
      fields[#fields + 1] = field .. ':' .. window % RING_WINDOWS
    end
  end
  if #touched == 0 then return end
  fields[#fields + 1] = CHANGED
  local texts = redis.call('HMGET', key, unpack(fields))
  local known = texts[#fields] or ','
  local changed = known
  local second, renew = floor(now / 1000000), false
  local writes = {}
  local function write(index, mark, L, admitted, denied, returned)
    writes[#writes + 1] = fields[index]
    writes[#writes + 1] = pack(TOTALS_FORMAT, mark, min(admitted + L.admitted, TOKENS_MAX),
      min(denied + L.denied, TOKENS_MAX), min(returned + L.returned, TOKENS_MAX))
  end
  for index, entry in ipairs(touched) do
    local L, window = entry[1], entry[2]
    local mark, admitted, denied, returned = 0, 0, 0, 0
    if texts[2 * index - 1] then mark, admitted, denied, returned = unpack_from(TOTALS_FORMAT, texts[2 * index - 1]) end
    if second - mark >= TOTALS_RENEW_S or second < mark then mark, renew = second, true end
    write(2 * index - 1, mark, L, admitted, denied, returned)
    mark, admitted, denied, returned = window, 0, 0, 0
    if texts[2 * index] then
      local found, a, d, r = unpack_from(TOTALS_FORMAT, texts[2 * index])
      if found >= window then mark, admitted, denied, returned = found, a, d, r end
    end
    if mark == window then
      write(2 * index, mark, L, admitted, denied, returned)
      changed = with_changed(changed, fields[2 * index])
    end
  end
  if changed ~= known then
    writes[#writes + 1] = CHANGED
    writes[#writes + 1] = changed
  end
  redis.call('HSET', key, unpack(writes))
  if renew then redis.call('EXPIRE', key, TOTALS_KEEP_S) end
end
