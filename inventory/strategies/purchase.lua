-- Sells items to all purchases that wait for them, in one atomic step. This is the whole sale of the strategies `batch` and `lua`.
--
-- KEYS: for each item: item, orders, users, holds[, events] (one hash tag, so one slot; on Redis Cluster all items of a call share one).
-- ARGV: how many keys an item has here (5: write the event stream; 4: do not); the strategy that the caller takes for granted (`batch` or `lua`);
--   until when the item, which then is the only one, is in the index of due times (0: the caller does not know; see due.h). Then for each item:
--   n, n digests, n users, n quantities.
-- Replies {now, reply of the first item, ...}; behind these, if there are any, the numbers (from 1) of the items that have a hold which is over
--   for a minute: the index of due times may have lost them. The reply of an item: `available` if all were sold and there are no holds, as in
--   most of a sale; {available, hold_until} if all were sold; otherwise {available, hold_until, r1 .. rn}, each r 1 sold | a record: this key has
--   its order already | 'sold-out' | 'limit' | 'not-started' | 'ended';
--   or {'index', until}: enter the item in the index for then, and call again; or {'unknown-item'}; or {'strategy', name}: the item has another
--   strategy. Times (ms) are of this server's clock, so that all instances agree on when a sale begins.
--
-- The first write of a call is one that Redis refuses when out of memory or read-only. So the call is carried out whole or not at all.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_tail = string.format(' %.0f', now)
local keys, strategy, entered = tonumber(ARGV[1]), ARGV[2], ARGV[3]

-- The terms of an item as numbers, by the text that create.lua wrote. Most items of a call have the same terms, so each text is parsed once.
local known = {}
local function terms_of(text)
  if not known[text] then
    local limit, starts, ends, hold, name = text:match('^(%S+) (%S+) (%S+) (%S+) (%S+)$')
    known[text] = {limit = tonumber(limit), starts = tonumber(starts), ends = tonumber(ends), hold = tonumber(hold), strategy = name}
  end
  return known[text]
end

local replies, late = {now}, {}

-- The item's keys begin at KEYS[k], its purchases end before ARGV[a + 3 * n].
local function sell(k, a, n)
  local item, orders, users, holds, events = KEYS[k], KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], keys > 4 and KEYS[k + 4]
  local c = call('HMGET', item, 'available', 'sold', 'terms', 'shortage')
  local available = tonumber(c[1])
  if not available then return {'unknown-item'} end
  -- An item of an earlier version has no `terms`.
  local terms = terms_of(c[3] or table.concat(call('HMGET', item, 'limit', 'starts', 'ends', 'hold', 'strategy'), ' '))
  if terms.strategy ~= strategy then return {'strategy', terms.strategy} end
  local limit, starts, ends, hold = terms.limit, terms.starts, terms.ends, terms.hold

  -- Orders that putback.lua noted as lost, and that are bought again. Only a sale after such a failover needs this key, so it is not declared. It
  -- is read before anything is written: where it alone has moved to another server of a cluster, the call fails, and nothing is sold.
  local shortage = c[4] and c[4] ~= '0' and item:gsub('item$', 'shortage')
  local notes, again = shortage and call('HMGET', shortage, unpack(ARGV, a, a + n - 1)), {}

  local closed = nil
  if starts > 0 and now < starts then closed = 'not-started' end
  if ends > 0 and now >= ends then closed = 'ended' end

  local counter, so_far, indexed = 'sold', c[2], true
  local hold_until, head, tail = 0, 'c ', now_tail
  if hold > 0 then
    local held = call('HMGET', item, 'held', 'indexed')
    counter, so_far, indexed = 'held', held[1], tonumber(held[2] or 0) > now
    hold_until = now + hold
    head, tail = 'h ', now_tail .. ' ' .. string.format('%.0f', hold_until)
  end

  -- A lone purchase most likely sells. It is written as if it did, which takes two commands less than to read first. A key that has its order
  -- writes nothing; where Redis refuses the write, it may still be one. What is over the user's limit is taken back.
  local units = n == 1 and indexed and not closed and not notes and tonumber(ARGV[a + 2])
  if units and units <= available and (limit == 0 or units <= limit) then
    local digest, user, quantity = ARGV[a], ARGV[a + 1], ARGV[a + 2]
    local record = head .. quantity .. ' ' .. user .. tail
    if pcall('HSETNX', orders, digest, record) == 1 then
      local total = limit > 0 and pcall('HINCRBY', users, user, quantity)
      local counted = type(total) == 'number'
      if limit == 0 or counted and total <= limit then
        if events then call('XADD', events, '*', digest, record) end
        call('HSET', item, 'available', available - units, counter, so_far + units)
        if hold > 0 then call('ZADD', holds, hold_until, digest) end
        return hold > 0 and {available - units, hold_until} or available - units
      end
      if counted then call('HINCRBY', users, user, -units) end
      call('HDEL', orders, digest)
    end
  end

  local old = call('HMGET', orders, unpack(ARGV, a, a + n - 1))
  local had = limit > 0 and call('HMGET', users, unpack(ARGV, a + n, a + 2 * n - 1))

  local reply, written, totals, new, bought = {0, hold_until}, {}, {}, {}, {}
  local taken, w, all_sold = 0, 0, true
  for i = 1, n do
    local digest = ARGV[a + i - 1]
    local record = old[i] or new[digest]
    local r = record or closed
    if not r then
      local user, quantity = ARGV[a + n + i - 1], ARGV[a + 2 * n + i - 1]
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
        if notes and notes[i] then again[digest] = notes[i]:match(' (%d+)') end
        if had then
          bought[user] = before + units
          -- Nearly all purchases are a user's first: then the text is at hand. To print a number costs more than the rest of this loop.
          totals[w + 1], totals[w + 2] = user, before == 0 and quantity or before + units
        end
        w = w + 2
      end
    end
    all_sold = all_sold and r == 1
    reply[2 + i] = r
  end
  reply[1] = available

  if w > 0 then
    -- Until `indexed` the item is in the index for certain. After that it is there if it has holds; without holds it must be entered first.
    if not indexed then
      if tonumber(entered) > now then
        call('HSET', item, 'indexed', entered)
      elseif call('ZCOUNT', holds, '-inf', '(+inf') == 0 then
        return {'index', hold_until}
      elseif call('ZCOUNT', holds, '-inf', now - 60000) > 0 then
        late[#late + 1] = #replies
      end
    end
    call('HSET', orders, unpack(written, 1, w))
    if events then call('XADD', events, '*', unpack(written, 1, w)) end
    call('HSET', item, 'available', available, counter, so_far + taken)
    if had then call('HSET', users, unpack(totals, 1, w)) end
    if hold > 0 then
      for i = 1, w, 2 do call('ZADD', holds, hold_until, written[i]) end
    end
    for digest, lost in pairs(again) do
      call('HDEL', shortage, digest)
      call('HINCRBY', item, 'shortage', -lost)
    end
  end
  if not all_sold then return reply end
  return hold > 0 and {available, hold_until} or available
end

local k, a = 1, 4
while a <= #ARGV do
  local n = tonumber(ARGV[a])
  replies[#replies + 1] = sell(k, a + 1, n)
  k, a = k + keys, a + 1 + 3 * n
end
if #late > 0 then replies[#replies + 1] = late end
return replies
