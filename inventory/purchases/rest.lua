-- Which inventories live, and which of them have shown their receipts (see receipts.h) to a promoted server.
--
-- KEYS: alive (sorted set: inventory by the time of its last heartbeat), waited (set: those which a history still waits for, and '' so that it
--   exists), again (set: those which have shown theirs, and will show some again, which did not fit).
-- ARGV: what, inventory, then
--   beat: it lives. Those that were silent for ten minutes are removed.
--   leave: it has nothing to show any more.
--   shown: how long (ms) one may be silent and still count as living; `again` or `done`. The inventory has shown what it has, and will show
--     some again once all have, or not. The first time this is called for a history, those that live are noted, as of the last heartbeat:
--     nobody could write one while the store was gone. Replies how many of them have not shown theirs yet, and how many will show some
--     again; nothing as long as nobody is noted, and its own heartbeat was lost too.
-- Times (ms) are of the server's clock, and only compared with each other.
local alive, waited, again = unpack(KEYS)
local what, inventory, quiet, stage = unpack(ARGV)

if what == 'beat' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZADD', alive, now, inventory)
  redis.call('ZREMRANGEBYSCORE', alive, '-inf', now - 600000)
  return 1
end
if what == 'leave' then return redis.call('ZREM', alive, inventory) end

if redis.call('EXISTS', waited) == 0 then
  if not redis.call('ZSCORE', alive, inventory) then return {} end
  local newest = redis.call('ZREVRANGE', alive, 0, 0, 'WITHSCORES')[2]
  redis.call('SADD', waited, '')
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', alive, newest - quiet, '+inf')) do redis.call('SADD', waited, id) end
  redis.call('EXPIRE', waited, 86400)
end
redis.call('SREM', waited, inventory)
if stage == 'again' then
  redis.call('SADD', again, inventory)
  redis.call('EXPIRE', again, 600)
else
  redis.call('SREM', again, inventory)
end
return {redis.call('SCARD', waited) - 1, redis.call('SCARD', again)}
