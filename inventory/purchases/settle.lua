-- What becomes of a hold: confirm, cancel, expire. Also the way to read one order, since a hold that is due expires when it is looked at.
--
-- KEYS: item, orders, users, holds, events. ARGV: what, then
--   what = get | confirm | cancel: a digest, and but for `get` when the request arrived ('': now). Replies its record after the step, or false
--     where there is no such order. What came in time is not too late, if nobody was faster; so by itself a hold expires half a second after it was due.
--   what = sweep: how many at most, when the item is due. Expires the holds that are due; replies {how many it saw to, when the next of the
--     item is due ('': it has no holds)}, or the same time again where that has not come yet. Times (ms) are of this server's clock.
-- Where the item is gone, nothing can be settled and nothing is written: there is no such order, and no hold.
-- A settled order stays as it is, so each of these can be repeated, and the one that came first wins.
local item, orders, users, holds, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local what = ARGV[1]
local GRACE = 500 -- as INVENTORY_HOLD_GRACE_MS

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function settle(digest, record, state, limit)
  local quantity, user = string.match(record, '^h (%d+) (%S+)')
  record = state .. string.sub(record, 2)
  redis.call('HSET', orders, digest, record)
  redis.call('XADD', events, '*', digest, record)
  redis.call('ZREM', holds, digest)
  redis.call('HINCRBY', item, 'held', -quantity)
  if state == 'c' then
    redis.call('HINCRBY', item, 'sold', quantity)
  else
    redis.call('HINCRBY', item, 'available', quantity)
    if tonumber(limit) > 0 then redis.call('HINCRBY', users, user, -quantity) end
    -- An item from before this was counted does not begin to.
    if redis.call('HEXISTS', item, 'returned') == 1 then redis.call('HINCRBY', item, 'returned', quantity) end
  end
  return record
end

if what == 'sweep' then
  local limit = redis.call('HGET', item, 'limit')
  if not limit then return {0, ''} end
  local now = clock()
  if now < tonumber(ARGV[3]) then return {0, ARGV[3]} end
  local due = redis.call('ZRANGEBYSCORE', holds, '-inf', now - GRACE, 'LIMIT', 0, ARGV[2])
  for _, digest in ipairs(due) do
    local record = redis.call('HGET', orders, digest)
    if record and string.find(record, '^h %d+ %S') then
      settle(digest, record, 'e', limit)
    else
      redis.call('ZREM', holds, digest) -- it is no hold: `decr`, interrupted, may leave such an entry
    end
  end
  local next = redis.call('ZRANGE', holds, 0, 0, 'WITHSCORES')[2]
  -- Its entry in the index of due times will be taken out, so it is not known to be there any more, even if this clock steps back.
  if not next then redis.call('HDEL', item, 'indexed') end
  return {#due, next or ''}
end

local digest = ARGV[2]
local record = redis.call('HGET', orders, digest)
if not record or string.sub(record, 1, 1) ~= 'h' then return record end
local now = clock()
local over = what == 'get' and now - GRACE or math.min(now, tonumber(ARGV[3]) or now)
local due = tonumber(string.match(record, '(%d+)$')) <= over
local state = due and 'e' or what == 'confirm' and 'c' or what == 'cancel' and 'x'
if not state then return record end
local limit = redis.call('HGET', item, 'limit')
return limit and settle(digest, record, state, limit)
