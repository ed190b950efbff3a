-- Sells one item to all purchases that wait for it, in one atomic step. This is the whole sale of the strategies `batch` and `lua`.
--
-- KEYS: item, orders, users, holds, events (one hash tag, so one slot).
-- ARGV: the strategy that the caller takes for granted (`batch` or `lua`), until when the item is in the index of due times (0: the caller does
--   not know; see holds.h), then n digests, n users, n quantities.
-- Replies {available, hold_until, now} if all were sold, as in most of a sale; otherwise {available, hold_until, now, r1 .. rn}, each r
--   1 sold | a record: this key has its order already | 'sold-out' | 'limit' | 'not-started' | 'ended';
-- or {'index', until}: enter the item in the index for then, and call again; or {'unknown-item'}; or {'strategy', name}: the item has another
-- strategy. Times (ms) are of this server's clock, so that all instances agree on when a sale begins.
--
-- All writes are computed first and done at the end, and the first is one that Redis refuses when out of memory or read-only. So the call is
-- carried out whole or not at all.
local item, orders, users, holds, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local entered = tonumber(ARGV[2])
local n = (#ARGV - 2) / 3

local c = redis.call('HMGET', item, 'available', 'limit', 'starts', 'ends', 'hold', 'strategy', 'indexed')
local available = tonumber(c[1])
if not available then return {'unknown-item'} end
if c[6] ~= ARGV[1] then return {'strategy', c[6]} end
local limit, starts, ends, hold = tonumber(c[2]), tonumber(c[3]), tonumber(c[4]), tonumber(c[5])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local closed = nil
if starts > 0 and now < starts then closed = 'not-started' end
if ends > 0 and now >= ends then closed = 'ended' end

local hold_until, head, tail = 0, 'c ', string.format(' %.0f', now)
if hold > 0 then
  hold_until = now + hold
  head, tail = 'h ', tail .. ' ' .. string.format('%.0f', hold_until)
end

local old = redis.call('HMGET', orders, unpack(ARGV, 3, n + 2))
local had = limit > 0 and redis.call('HMGET', users, unpack(ARGV, n + 3, 2 * n + 2))

local reply, written, totals, new, bought = {0, hold_until, now}, {}, {}, {}, {}
local taken, w, all_sold = 0, 0, true
for i = 1, n do
  local digest = ARGV[2 + i]
  local record = old[i] or new[digest]
  local r = record or closed
  if not r then
    local user, quantity = ARGV[2 + n + i], ARGV[2 + 2 * n + i]
    local units = tonumber(quantity)
    local before = had and (bought[user] or tonumber(had[i] or 0))
    if units > available then
      r = 'sold-out'
    elseif had and before + units > limit then
      r = 'limit'
    else
      r = 1
      available, taken = available - units, taken + units
      record = head .. quantity .. ' ' .. user .. tail
      new[digest] = record
      written[w + 1], written[w + 2] = digest, record
      if had then
        bought[user] = before + units
        -- Nearly all purchases are a user's first: then the text is at hand. To print a number costs more than the rest of this loop.
        totals[w + 1], totals[w + 2] = user, before == 0 and quantity or before + units
      end
      w = w + 2
    end
  end
  all_sold = all_sold and r == 1
  reply[3 + i] = r
end
reply[1] = available

if w > 0 then
  -- Until `indexed` the item is in the index for certain. After that it is there if it has holds; without holds it must be entered first.
  if hold > 0 and tonumber(c[7] or 0) <= now then
    if entered > now then
      redis.call('HSET', item, 'indexed', ARGV[2])
    elseif redis.call('ZCARD', holds) == 0 then
      return {'index', hold_until}
    end
  end
  redis.call('HSET', orders, unpack(written, 1, w))
  redis.call('XADD', events, '*', unpack(written, 1, w))
  redis.call('HINCRBY', item, 'available', -taken)
  redis.call('HINCRBY', item, hold > 0 and 'held' or 'sold', taken)
  if had then redis.call('HSET', users, unpack(totals, 1, w)) end
  if hold > 0 then
    for i = 1, w, 2 do redis.call('ZADD', holds, hold_until, written[i]) end
  end
end
return all_sold and {available, hold_until, now} or reply
