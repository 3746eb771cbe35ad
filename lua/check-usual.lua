--[[
Decides checks that arrived together and are what most checks are: one limit, a token bucket or a fixed window, whose
counter has no share and no lease of its own and no state of other numbers. A check that is not so is moved: nothing is
done of it, and the caller has lua/check.lua decide it.

KEYS[1] hot set: counters that ran low and are not tracked
KEYS[2] usage totals
KEYS[3...] metas of the slot groups at hand, then their counters, each once
ARGV[1] version of the policies that the checks were matched with
ARGV[2] number of metas
ARGV[3] limits, packed (LIMIT_FORMAT)
ARGV[4] runs of checks, packed doubles: index of the limit, cost in tokens, index of the first counter, from 1, number of
        checks; a run takes one counter after the other. One that begins before the end of an earlier run asks again.
ARGV[5] for each counter the index of its meta, a byte each
ARGV[6...] names of the limits' totals

Reply: the instant of the decisions in us, then for each check three numbers, packed doubles. Of a bucket: whole tokens
left, fraction, and a code; of a window: its beginning, tokens admitted in it, and a code. The code is -1 for a denial, -2
for a check that was moved, and anything else for an admission. Or one of STALE, NOT_SERVED, OTHER_SERVER, BAD_INPUT; then
nothing was changed.
Atomic because two checks that both read a counter before either writes it would admit more than the share.

On a server that is no part of a cluster one call decides for several slot groups, whose totals and hot set are then
those of any of them: their readers add up over all groups. What it says and writes is what _token-bucket.lua,
_fixed-window.lua and _counters.lua would, operation by operation; the same tests compare both with
shared/core/algorithms. It is one piece without functions, since a call of one costs as much as the arithmetic in it.
]]
-- SERVER_ID, the replication id under which it may decide, is put in front when the script is loaded.
local call = redis.call
local FIXED_WINDOW = 1
local FIRST_META, LIMIT_SIZE, RUN_SIZE = 3, 176, 32
local DENIED_CODE, MOVED_CODE = -1, -2
local ANSWER_FORMAT = '<ddd'
local MOVED = pack(ANSWER_FORMAT, 0, 0, MOVED_CODE)

local keys = KEYS
local values = call('MGET', unpack(keys, FIRST_META))
local policy_version, metas = tonumber(ARGV[1]), tonumber(ARGV[2])
local runs, meta_of = ARGV[4], ARGV[5]
-- Of the slot groups: where their levels start, the latest of these, and whether any may use nothing.
local starts, latest_us, recovering_any = {}, 0, false
for index = 1, metas do
  local meta = values[index]
  if not meta or string.byte(meta) ~= META_LAYOUT then return NOT_SERVED end
  local _, _, _, _, start_us, version, recovering, serving = unpack_from(META_FORMAT, meta)
  if serving ~= 1 then return NOT_SERVED end
  if policy_version < version then return STALE end
  if recovering == 1 then recovering_any = true end
  starts[index] = start_us
  if start_us > latest_us then latest_us = start_us end
end
if not is_server(SERVER_ID) then return OTHER_SERVER end
for position = 1, #runs, RUN_SIZE do
  local _, cost = unpack_from('<dd', runs, position)
  if not (cost >= 0 and cost <= TOKENS_MAX) or floor(cost) ~= cost then return BAD_INPUT end
end

local now = now_us()
local second = floor(now / 1000000)
local limits, packed = {}, ARGV[3]
for index = 1, #packed / LIMIT_SIZE do
  local algorithm, id, usage_epoch, version, capacity, window_us, burst, home, _, idle_tokens, idle_us, usage_window_us =
    unpack_from('<dddddddddddd', packed, 1 + (index - 1) * LIMIT_SIZE)
  limits[index] = {
    algorithm = algorithm, version = version, capacity = capacity, window_us = window_us, burst = burst, home = home,
    idle_tokens = idle_tokens, idle_us = idle_us, usage_window_us = usage_window_us,
    field = ARGV[5 + index], admitted = 0, denied = 0, returned = 0,
  }
end

local answers, count = { pack('<d', now) }, 1
local low, lows = {}, 0
local asked = metas

for position = 1, #runs, RUN_SIZE do
  local limit, cost, first, checks = unpack_from('<dddd', runs, position)
  local L = limits[limit]
  local version, admitted, denied = L.version, 0, 0
  local from, to = metas + first, metas + first + checks - 1
  local is_read, needed = cost == 0, max(cost, 1)
  if from <= asked then
    for index = from, min(to, asked) do values[index] = call('GET', keys[index + 2]) end
  end
  if to > asked then asked = to end
  if recovering_any then
    for _ = from, to do
      count = count + 1
      answers[count] = MOVED
    end
  elseif L.algorithm == TOKEN_BUCKET then
    local cap = share_burst(L.burst, L.home)
    local cap_whole, rate = floor(cap), (L.capacity * L.home) / (POOL_UNITS * L.window_us)
    local cap_fraction, snap = cap - cap_whole, min(SNAP_TOKENS_MAX, rate / 2)
    -- In whole tokens: one that has fewer is low. A check that is only read never is.
    local low_below = is_read and 0 or ceil(cap_whole * LOW_PARTS / LOW_OF)
    local keep = min(ceil((L.burst / L.capacity) * (L.window_us / 1000) * 1.4) + 2000, KEEP_MS_MAX)
    -- A counter without a state is an idle bucket whose expiry was set in second 0: too long ago for any limit.
    local renewed_by = max(second - max(floor(keep / 4000), 1), 0)
    local idle_whole = floor(L.idle_tokens)
    local idle = pack(COUNTER_FORMAT, TOKEN_BUCKET, version, idle_whole, L.idle_tokens - idle_whole, L.idle_us, 0)
    for index = from, to do
      local state, answer = values[index] or idle, MOVED
      if #state == COUNTER_SIZE then
        local code, found, whole, fraction, last_us, expiry_set = unpack_from(COUNTER_FORMAT, state)
        local is_sound = whole >= 0 and fraction >= 0 and fraction < 1
        if last_us < latest_us then
          local start_us = starts[string.byte(meta_of, index - metas)]
          if last_us < start_us then whole, fraction, last_us = 0, 0, start_us end
        end
        if is_sound and last_us <= now and found == version and code == TOKEN_BUCKET and expiry_set <= second then
          if last_us < now then
            -- The remainder in place of math.floor, whose call costs more than all of this.
            local added = (now - last_us) * rate
            local part = added % 1
            whole = whole + (added - part)
            fraction = fraction + part
            if fraction >= 1 then
              whole = whole + 1
              fraction = fraction - 1
            end
            if 1 - fraction <= snap then
              whole = whole + 1
              fraction = 0
            end
          end
          if whole >= cap_whole and (whole > cap_whole or fraction > cap_fraction) then
            whole, fraction = cap_whole, cap_fraction
          end
          if whole < needed then
            denied = denied + cost
            answer = pack(ANSWER_FORMAT, whole, fraction, DENIED_CODE)
            -- What denies is noted, whatever it has left.
            if not is_read then whole = -1 end
          elseif is_read then
            answer = pack(ANSWER_FORMAT, whole, fraction, now)
          else
            whole = whole - cost
            admitted = admitted + cost
            answer = pack(ANSWER_FORMAT, whole, fraction, now)
            if expiry_set > renewed_by then
              call('SETRANGE', keys[index + 2], STATE_OFFSET, answer)
            else
              call('SET', keys[index + 2], pack(COUNTER_FORMAT, TOKEN_BUCKET, version, whole, fraction, now, second),
                'PX', integer(keep))
            end
          end
          if whole < low_below then
            lows = lows + 1
            low[lows] = index + 2
          end
        end
      end
      count = count + 1
      answers[count] = answer
    end
  elseif L.algorithm == FIXED_WINDOW then
    local window_us = L.window_us
    local start_us = floor(now / window_us) * window_us
    local before_us, most = start_us - window_us, share_tokens(L.capacity, L.home)
    local keep = ceil((start_us + window_us - now) / 1000) + 1000
    local low_below = is_read and 0 or ceil(most * LOW_PARTS / LOW_OF)
    -- A counter without a state is one of a window long past.
    local idle = pack(COUNTER_FORMAT, FIXED_WINDOW, version, -1, 0, 0, 0)
    for index = from, to do
      local state, answer = values[index] or idle, MOVED
      if #state == COUNTER_SIZE then
        local code, found, begin_us, tokens, previous = unpack_from(COUNTER_FORMAT, state)
        local is_known = start_us >= latest_us or start_us >= starts[string.byte(meta_of, index - metas)]
        if is_known and begin_us <= start_us and tokens >= 0 and found == version and code == FIXED_WINDOW then
          local is_same = begin_us == start_us
          if not is_same then
            previous = begin_us == before_us and tokens or 0
            tokens = 0
          end
          local left = most - tokens
          if left < needed then
            denied = denied + cost
            answer = pack(ANSWER_FORMAT, start_us, tokens, DENIED_CODE)
            if not is_read then left = -1 end
          elseif is_read then
            answer = pack(ANSWER_FORMAT, start_us, tokens, previous)
          else
            tokens, left = tokens + cost, left - cost
            admitted = admitted + cost
            answer = pack(ANSWER_FORMAT, start_us, tokens, previous)
            if is_same then
              call('SETRANGE', keys[index + 2], STATE_OFFSET, answer)
            else
              call('SET', keys[index + 2], pack(COUNTER_FORMAT, FIXED_WINDOW, version, start_us, tokens, previous, second),
                'PX', integer(keep))
            end
          end
          if left < low_below then
            lows = lows + 1
            low[lows] = index + 2
          end
        end
      end
      count = count + 1
      answers[count] = answer
    end
  else
    return BAD_INPUT
  end
  L.admitted, L.denied = L.admitted + admitted, L.denied + denied
end

if lows > 0 then
  local noted, ids = {}, {}
  for place = 1, lows do
    local key = keys[low[place]]
    if not noted[key] then
      noted[key] = true
      ids[#ids + 1] = string.sub(key, 3)
    end
  end
  note_hot(KEYS[1], ids)
end
add_totals(KEYS[2], limits, now, now)
return table.concat(answers)
