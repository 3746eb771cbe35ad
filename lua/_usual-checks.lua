--[[
A shorter way for check.lua, put in front of all that it does not need: each check has one target, a token bucket whose counter
has no share and no lease of its own and no state of other numbers. Nothing else of the script runs then, and building
its functions would take longer than deciding a dozen checks.

Gives the reply, or nil for everything that is not so; then nothing was changed, and the script decides. What it says
and writes is what _token-bucket.lua and _counters.lua would, operation by operation; the same tests compare both with
shared/core/algorithms.
]]
local function decide_usual()
  local call, find, ALLOWED, EXCEEDS, NEVER = redis.call, string.find, -1, -2, -3
  local FIRST_COUNTER, LIMIT_SIZE, CHECK_SIZE = 3, 176, 32

  local values = call('MGET', unpack(KEYS))
  local meta = read_meta(values[1])
  if not meta or not meta.serving or meta.recovering or tonumber(ARGV[1]) < meta.version then return nil end
  if not is_server(SERVER_ID) then return nil end
  local now, start_us = now_us(), meta.start_us
  local second = floor(now / 1000000)

  local packed, limits = ARGV[2], {}
  for index = 1, #packed / LIMIT_SIZE do
    local algorithm, id, epoch, version, capacity, window_us, burst, home, _, idle_tokens, idle_us, usage_window_us =
      unpack_from('<dddddddddddd', packed, 1 + (index - 1) * LIMIT_SIZE)
    if algorithm ~= TOKEN_BUCKET or capacity == 0 or home == 0 then return nil end
    limits[index] = {
      id = id, epoch = epoch, version = version, burst = burst, rate = (capacity * home) / (POOL_UNITS * window_us),
      cap = share_burst(burst, home),
      keep_ms = min(ceil((burst / capacity) * (window_us / 1000) * 1.4) + 2000, KEEP_MS_MAX),
      idle_tokens = idle_tokens, idle_us = idle_us, usage_window_us = usage_window_us, admitted = 0, denied = 0,
    }
  end

  local reply, replies = { now }, 1
  local low, lows, is_low = {}, 0, {}
  -- By counter: 0 where the expiry stays, else the ms to set it to.
  local touched = {}
  local checks = ARGV[3]
  local size = #checks
  local limit, L, version, burst, rate, cap_whole, cap_fraction, snap, keep_ms, renew_s
  if size % CHECK_SIZE ~= 0 then return nil end
  for position = 1, size, CHECK_SIZE do
    local cost, targets, limit_index, index = unpack_from('<dddd', checks, position)
    if targets ~= 1 or not (cost > 0 and cost <= TOKENS_MAX) or floor(cost) ~= cost then return nil end
    if limit_index ~= limit then
      limit, L = limit_index, limits[limit_index]
      version, burst, rate, cap_whole, keep_ms = L.version, L.burst, L.rate, floor(L.cap), L.keep_ms
      cap_fraction, snap, renew_s = L.cap - cap_whole, min(SNAP_TOKENS_MAX, rate / 2), floor(keep_ms / 4000)
    end
    local key_index = FIRST_COUNTER + index
    local state = values[key_index]
    local keep = 0
    local whole, fraction, last_us, expiry_set
    if state then
      if #state ~= COUNTER_SIZE then return nil end
      local algorithm, stored_version
      algorithm, stored_version, whole, fraction, last_us, expiry_set = unpack_from(COUNTER_FORMAT, state)
      if algorithm ~= TOKEN_BUCKET or stored_version ~= version then return nil end
      local age = second - expiry_set
      if age < 0 then return nil end
      if age > 0 and age >= renew_s then keep, expiry_set = keep_ms, second end
    else
      whole = floor(L.idle_tokens)
      fraction, last_us, keep, expiry_set = L.idle_tokens - whole, L.idle_us, keep_ms, second
    end
    if last_us < start_us then whole, fraction, last_us = 0, 0, start_us end
    if last_us > now then return nil end
    if now > last_us then
      local added = (now - last_us) * rate
      local added_whole = floor(added)
      whole = whole + added_whole
      fraction = fraction + (added - added_whole)
      if fraction >= 1 then
        whole = whole + 1
        fraction = fraction - 1
      end
      if 1 - fraction <= snap then
        whole = whole + 1
        fraction = 0
      end
    end
    if whole > cap_whole or (whole == cap_whole and fraction > cap_fraction) then
      whole, fraction = cap_whole, cap_fraction
    end
    local code = ALLOWED
    if whole >= cost and cost <= burst then
      whole = whole - cost
      values[key_index] = pack(COUNTER_FORMAT, TOKEN_BUCKET, version, whole, fraction, now, expiry_set)
      if keep > 0 or not touched[key_index] then touched[key_index] = keep end
      L.admitted = L.admitted + cost
    elseif cost > burst then
      code = EXCEEDS
    else
      L.denied = L.denied + cost
      if cost > cap_whole then
        code = NEVER
      else
        local missing = cost - whole - fraction
        code = missing <= snap and 0 or ceil(ceil((missing - snap) / rate) / 1000)
      end
    end
    if code ~= EXCEEDS and (code ~= ALLOWED or whole * LOW_OF < cap_whole * LOW_PARTS) and not is_low[index] then
      is_low[index] = true
      lows = lows + 1
      low[lows] = string.sub(KEYS[key_index], 3)
    end
    local missing = cap_whole - whole + (cap_fraction - fraction)
    reply[replies + 1] = whole
    reply[replies + 2] = missing <= snap and 0 or ceil(ceil((missing - snap) / rate) / 1000)
    reply[replies + 3] = code
    replies = replies + 3
  end

  -- Totals as they usually are: their windows open, named as changed, and no expiry to renew.
  local fields, of = {}, {}
  for index = 1, #limits do
    local counted = limits[index]
    if counted.admitted > 0 or counted.denied > 0 then
      local field = integer(counted.id) .. '.' .. integer(counted.epoch)
      of[#of + 1] = counted
      fields[#fields + 1] = field
      fields[#fields + 1] = field .. ':' .. integer(floor(now / counted.usage_window_us) % RING_WINDOWS)
    end
  end
  local writes = {}
  if #of > 0 then
    fields[#fields + 1] = CHANGED
    local totals = call('HMGET', KEYS[3], unpack(fields))
    local changed = totals[#fields]
    if not changed then return nil end
    for place = 1, #of do
      local counted = of[place]
      for field = 2 * place - 1, 2 * place do
        if not totals[field] then return nil end
        local mark, a, d, r = unpack_from(TOTALS_FORMAT, totals[field])
        if field % 2 == 1 then
          if second < mark or second - mark >= TOTALS_RENEW_S then return nil end
        elseif mark ~= floor(now / counted.usage_window_us) then
          return nil
        elseif changed ~= ANY_CHANGED and not find(changed, ',' .. fields[field] .. ',', 1, true) then
          return nil
        end
        writes[#writes + 1] = fields[field]
        writes[#writes + 1] = pack(TOTALS_FORMAT, mark, min(a + counted.admitted, TOKENS_MAX),
          min(d + counted.denied, TOKENS_MAX), r)
      end
    end
  end

  for key_index, keep in pairs(touched) do
    if keep == 0 then
      call('SETRANGE', KEYS[key_index], '0', values[key_index])
    else
      call('SET', KEYS[key_index], values[key_index], 'PX', integer(keep))
    end
  end
  if lows > 0 and call('SCARD', KEYS[2]) < HOT_MAX then
    if call('SADD', KEYS[2], unpack(low)) > 0 then call('EXPIRE', KEYS[2], HOT_TTL_S) end
  end
  if #writes > 0 then call('HSET', KEYS[3], unpack(writes)) end
  return pack('<' .. string.rep('d', replies), unpack(reply))
end

local usual = decide_usual()
if usual then return usual end

