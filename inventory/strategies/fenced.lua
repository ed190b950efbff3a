-- A purchase of strategy `locked` under a lock with fences, in two calls: a read, and later a write. Under a lock without fences only the read
-- is made here, with fence 0: it stops holders whose grant is of an older lock epoch.
--
-- A holder can be paused past the end of its lock and not know it. So each call brings its fencing token, EPOCH:FENCE, and is refused if a newer
-- token was seen. A read counts as seen. If only writes did, an old holder could still write between the read and the write of the new holder,
-- whose write would then rest on a read that is outdated. Both numbers have leading zeros, so that the order of the texts is the order of the
-- tokens: numbers are exact only up to 2^53 here.
--
-- KEYS: item, orders, users, holds, events, token (one hash tag, so one slot).
-- ARGV: whether the event stream is written (on | off), what, token, digest, user, then
--   read: names of fields. Replies {'read', the item's fields, the user's units, now (ms, by this server's clock)}.
--   write: quantity, record, hold_until (0: none), indexed. Replies {'sold'}, {'sold-out', available}, {'limit'}, or {'index', until}, as
--     purchase.lua does.
-- Or, both: {'order', record}: this key has its order already, however old the token | {'stale'} | {'unknown-item'}.
--
-- The newest token is a key of its own, since it must outlive the item, which may be created anew. As in purchase.lua, the first write is one
-- that Redis refuses when out of memory, so a call is carried out whole or not at all.
local item, orders, users, holds, events, newest_token = unpack(KEYS)
local streams, what, token, digest, user = unpack(ARGV, 1, 5)

local record = redis.call('HGET', orders, digest)
if record then return {'order', record} end
local available, limit = unpack(redis.call('HMGET', item, 'available', 'limit'))
if not available then return {'unknown-item'} end

local newest = redis.call('GET', newest_token)
if newest and token < newest then return {'stale'} end
if newest ~= token then redis.call('SET', newest_token, token) end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if what == 'read' then
  return {'read', redis.call('HMGET', item, unpack(ARGV, 6)), redis.call('HGET', users, user), now}
end

-- By increments: restocks, and holds that end, need no lock and may have added units since the read. The fence ensures that no units were
-- debited since; this is checked all the same, since a lock server that failed over may give out one fence twice.
local quantity, new, hold_until, entered = unpack(ARGV, 6, 9)
available, limit = tonumber(available), tonumber(limit)
if available < tonumber(quantity) then return {'sold-out', available} end
if limit > 0 and quantity + (redis.call('HGET', users, user) or 0) > limit then return {'limit'} end
if hold_until ~= '0' and tonumber(redis.call('HGET', item, 'indexed') or 0) <= now then
  if tonumber(entered) > now then
    redis.call('HSET', item, 'indexed', entered)
  elseif redis.call('ZCOUNT', holds, '-inf', '(+inf') == 0 then
    return {'index', tonumber(hold_until)}
  end
end
redis.call('HSET', orders, digest, new)
if streams == 'on' then redis.call('XADD', events, '*', digest, new) end
redis.call('HINCRBY', item, 'available', -quantity)
redis.call('HINCRBY', item, hold_until ~= '0' and 'held' or 'sold', quantity)
if limit > 0 then redis.call('HINCRBY', users, user, quantity) end
if hold_until ~= '0' then redis.call('ZADD', holds, hold_until, digest) end
return {'sold'}
