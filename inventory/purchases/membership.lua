-- Which inventories live, and which of them have shown their receipts (see receipts.h) to a promoted server.
--
-- KEYS: alive (sorted set: inventory by its last heartbeat, or by a later one that others wrote for it, see beat).
--   For beat and leave: beats (sorted set: inventory by its own last heartbeat).
--   For shown, of a history: waited (set: inventories that the quarantine still waits for, and '' so that the set exists), again (set: inventories that
--   have shown theirs, and will show again what did not fit), showing (sorted set: inventories that show theirs now, by when they last said so),
--   early (set: inventories that were done before `waited` existed: it is made without them).
-- ARGV: what, inventory, then
--   beat: for how long (ms) an inventory may be silent and still count as living. Writes a heartbeat, and removes inventories that were silent for
--     ten minutes. Replies the time, and the inventory's last heartbeat before this one (0: the store has none).
--   leave: the inventory has nothing to show any more.
--   shown: the same time (0: it has not sold in the history before, so it does not know who did), then `showing`, `again` or `done`: the inventory
--     shows its receipts now; or has shown them, and will show some again once all have; or has shown them all. The first such call for a history
--     notes which inventories live, by the time of the last heartbeat, since nobody could write one while the store was gone. Replies how many of
--     these have not shown theirs yet (-1: none are noted, since no caller had sold before and has a heartbeat here), how many will show some
--     again, and how many have just said that they show theirs.
-- Times (ms) are by the server's clock, and are only compared with each other.
local alive, waited, again, showing, early = unpack(KEYS)
local beats = KEYS[2]
local what, inventory, quiet, stage = unpack(ARGV)
local KEPT = 30 * 86400000 -- the notes of whom a quarantine waited for
local WAIT_MOST = 600000 -- after that nobody counts as silent any more
local SHOWING = 3000 -- an inventory that shows says so each second

if what == 'leave' then return redis.call('ZREM', beats, inventory) + redis.call('ZREM', alive, inventory) end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local newest = tonumber(redis.call('ZREVRANGE', alive, 0, 0, 'WITHSCORES')[2])
local function living() return redis.call('ZRANGEBYSCORE', alive, newest - quiet, '+inf') end

if what == 'beat' then
  -- After an outage, or a step back of the clock: inventories that lived before count as living, so that each has time for a heartbeat of its own.
  -- As long as an inventory lives, a heartbeat comes every two seconds.
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
