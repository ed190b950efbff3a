-- Sells one item to all who wait for it, in one atomic step. This is the whole sale: no other purchase takes units in `batch` and `lua`.
--
-- KEYS: item, orders, users, holds, events (one hash tag, so one slot).
-- ARGV: the strategy that the seller goes by (`batch` or `lua`), until when the item is known to stand in the index of due times (0: that is
--   not known; see holds.c), then n digests, n users, n quantities.
-- Replies {available, hold_until, now} where all were sold, as in most of a sale; otherwise {available, hold_until, now, r1 .. rn}, each r
--   1 sold | a record: this key has its order already | -1 sold out | -2 over the limit | -3 not started | -4 ended;
-- or {'index', until}: enter the item in that index for then, and say so; or {'unknown-item'}, or {'strategy', name} where the item is sold in
-- another way. Times (ms) are of this server's clock, so that all who sell agree on when a sale begins.
--
-- Each write is worked out first and then done at the end, so that an error (out of memory, read-only) comes before
-- the first of them: the call happens whole or not at all. The first write is one that Redis refuses when out of memory.
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
if starts > 0 and now < starts then closed = -3 end
if ends > 0 and now >= ends then closed = -4 end

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
      r = -1
    elseif had and before + units > limit then
      r = -2
    else
      r = 1
      available, taken = available - units, taken + units
      record = head .. quantity .. ' ' .. user .. tail
      new[digest] = record
      written[w + 1], written[w + 2] = digest, record
      if had then
        bought[user] = before + units
        -- The text is at hand for a first purchase, which nearly all are; to print a number costs more than all of this loop.
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
  -- Until `indexed` the item's entry in the index stays. After that an item that has holds has an entry still; one without is entered first.
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
