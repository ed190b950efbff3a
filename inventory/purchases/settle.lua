-- Settles holds: confirm, cancel, expire. It also reads one order, since a hold that is due expires when it is read.
--
-- KEYS: item, orders, users, holds, events. ARGV: whether the event stream is written (on | off), what, then
--   get: digest. confirm, cancel: digest, when the request arrived ('': now). Replies the record after the step, or false if there is no
--     such order. A request that arrived in time is not too late unless the hold was settled before; so a hold expires by itself only half a
--     second after it was due.
--   sweep: how many holds at most, when the item is due, when the sweep began. Expires the holds that were due then: this call may have stood
--     still since, and requests that arrived in time with it. Replies {how many it handled, when the item's next hold is due ('': it has
--     none)}, or the same time again if that has not come yet.
--   over: how many holds at most, 0, a time. The same with those that are due now, or were by that time: the clock of another server told it.
-- Times (ms) are of this server's clock. If the item is gone, nothing is written: there is no such order, and no hold. A settled order stays
-- as it is, so each call can be repeated, and the first one wins.
local item, orders, users, holds, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local what = ARGV[2]
local GRACE = 500 -- as INVENTORY_HOLD_GRACE_MS

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function settle(digest, record, state, limit)
  local version, rest, quantity, user = string.match(record, '^h(%d*)( (%d+) (%S+).*)')
  record = state .. (tonumber(version) or 1) + 1 .. rest
  redis.call('HSET', orders, digest, record)
  if ARGV[1] == 'on' then redis.call('XADD', events, '*', digest, record) end
  redis.call('ZREM', holds, digest)
  redis.call('HINCRBY', item, 'held', -quantity)
  if state == 'c' then
    redis.call('HINCRBY', item, 'sold', quantity)
  else
    redis.call('HINCRBY', item, 'available', quantity)
    if tonumber(limit) > 0 then redis.call('HINCRBY', users, user, -quantity) end
    redis.call('HINCRBY', item, 'returned', quantity)
  end
  return record
end

if what == 'sweep' or what == 'over' then
  local limit = redis.call('HGET', item, 'limit')
  if not limit then return {0, ''} end
  local now = (what == 'sweep' and math.min or math.max)(clock(), tonumber(ARGV[5]))
  if now < tonumber(ARGV[4]) then return {0, ARGV[4]} end
  local due = redis.call('ZRANGEBYSCORE', holds, '-inf', now - GRACE, 'LIMIT', 0, ARGV[3])
  for _, digest in ipairs(due) do
    local record = redis.call('HGET', orders, digest)
    if record and string.find(record, '^h%d* %d+ %S') then
      settle(digest, record, 'e', limit)
    else
      redis.call('ZREM', holds, digest) -- not a hold: `decr` may leave such an entry if it is interrupted
    end
  end
  local next = redis.call('ZRANGE', holds, 0, 0, 'WITHSCORES')[2]
  if next == 'inf' then next = nil end -- the entry that create.lua made
  -- Its entry in the index of due times will be removed, so `indexed` must not say that it stands, even if this clock steps back.
  if not next then redis.call('HDEL', item, 'indexed') end
  return {#due, next or ''}
end

local digest = ARGV[3]
local record = redis.call('HGET', orders, digest)
if not record or string.sub(record, 1, 1) ~= 'h' then return record end
local now = clock()
local over = what == 'get' and now - GRACE or math.min(now, tonumber(ARGV[4]) or now)
local due = tonumber(string.match(record, '(%d+)$')) <= over
local state = due and 'e' or what == 'confirm' and 'c' or what == 'cancel' and 'x'
if not state then return record end
local limit = redis.call('HGET', item, 'limit')
return limit and settle(digest, record, state, limit)
