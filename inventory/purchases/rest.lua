-- Which inventories live, and which of them have shown their receipts (see receipts.h) to a promoted server.
--
-- KEYS: alive (sorted set: inventory by the time of its last heartbeat, or of a later one of others: see beat). With beat and leave: beats (the
--   same, written by itself only). With shown, of a history: waited (set: those which it still waits for, and '' so that
--   it exists), again (set: those which have shown theirs, and will show some again, which did not fit), showing (sorted set: those which show
--   theirs now, by when they last said so), early (set: those which were done before `waited` existed; it is made without them).
-- ARGV: what, inventory, then
--   beat: how long (ms) one may be silent and still count as living. It lives. Those that were silent for ten minutes are removed. Replies the time,
--     and that of its last heartbeat before this one (0: none is here).
--   leave: it has nothing to show any more.
--   shown: the same (0: it has not sold in the history before, so it does not know who did); `showing`, `again` or `done`. The inventory shows
--     what it has, or has shown it, and will show some again once all have, or not. The first time this is called for a history, those that live
--     are noted, as of the last heartbeat: nobody could write one while the store was gone. Replies how many of them have not shown theirs yet
--     (-1: nobody is noted: none of those that asked had sold before, and has a heartbeat here), how many will show some again, and how many have
--     said that they show theirs now.
-- Times (ms) are of the server's clock, and only compared with each other.
local alive, waited, again, showing, early = unpack(KEYS)
local beats = KEYS[2]
local what, inventory, quiet, stage = unpack(ARGV)
local KEPT = 30 * 86400000 -- of who was waited for
local WAIT_MOST = 600000 -- later nobody counts as silent any more
local SHOWING = 3000 -- it says so each second

if what == 'leave' then return redis.call('ZREM', beats, inventory) + redis.call('ZREM', alive, inventory) end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local newest = tonumber(redis.call('ZREVRANGE', alive, 0, 0, 'WITHSCORES')[2])
local function living() return redis.call('ZRANGEBYSCORE', alive, newest - quiet, '+inf') end

if what == 'beat' then
  -- After an outage, or where the clock stepped back: who lived when it began counts as living until he could have told.
  -- Somebody writes one each two seconds.
  if newest and (newest < now - quiet / 2 or newest > now) then
    for _, id in ipairs(living()) do redis.call('ZADD', alive, now, id) end
  end
  redis.call('ZADD', alive, now, inventory)
  redis.call('ZREMRANGEBYSCORE', alive, '-inf', now - 600000)
  local last = tonumber(redis.call('ZSCORE', beats, inventory) or 0)
  redis.call('ZADD', beats, now, inventory)
  redis.call('ZREMRANGEBYSCORE', beats, '-inf', now - 86400000)
  return {now, last}
end

if redis.call('EXISTS', waited) == 0 and quiet ~= '0' and redis.call('ZSCORE', alive, inventory) then
  redis.call('SADD', waited, '')
  for _, id in ipairs(living()) do
    if redis.call('SISMEMBER', early, id) == 0 then redis.call('SADD', waited, id) end
  end
  redis.call('PEXPIRE', waited, KEPT)
end
local noted = redis.call('EXISTS', waited) == 1
local function enter(key, ttl_ms, command, ...)
  redis.call(command, key, ...)
  redis.call('PEXPIRE', key, ttl_ms)
end
if stage == 'showing' then
  enter(showing, WAIT_MOST, 'ZADD', now, inventory)
else
  redis.call('ZREM', showing, inventory)
  redis.call('SREM', waited, inventory)
  if stage == 'again' then enter(again, WAIT_MOST, 'SADD', inventory) else redis.call('SREM', again, inventory) end
  if not noted then enter(early, KEPT, 'SADD', inventory) end
end
local silent = -1
if noted then silent = redis.call('PTTL', waited) < KEPT - WAIT_MOST and 0 or redis.call('SCARD', waited) - 1 end
return {silent, redis.call('SCARD', again), redis.call('ZCOUNT', showing, now - SHOWING, '+inf')}
