-- Sells items to all purchases that wait for them, in one atomic step. This is the whole sale of the strategies `batch` and `lua`.
--
-- KEYS: for each item: item[, holds, due][, events] (see stock.lua; on Redis Cluster all items of a call are of one part).
-- ARGV: the strategy that the caller takes for granted (`batch` or `lua`); whether the event stream is written (on | off); whether each purchase
--   has a quantity (each), or is for one unit (ones). Then for each item: n (negative: -n, and its keys of holds are there), n digests, n users[,
--   n quantities].
-- Replies {now, reply of the first item, ...}. The reply of an item: `available` if all were sold and there are no holds, as in
--   most of a sale; {available, expiry of the holds} if all were sold; otherwise {available, expiry, r1 .. rn}, each r 1 sold | a record: this key
--   has its order already | 'sold-out' | 'limit' | 'not-started' | 'ended'. Or {'unknown-item'}; or {'otherwise', strategy, whether it has holds (0 |
--   1)}: the caller took something else for granted, and nothing is sold. Times (ms) are of this server's clock, so that all instances agree on when
--   a sale begins.
local strategy, streams, each = ARGV[1], ARGV[2] == 'on', ARGV[3] == 'each'
local now = clock()
local now_tail = string.format(' %.0f', now)
local replies = {now}

local function units_of_users(key, a, n)
  local names = {}
  for i = 1, n do names[i] = '@' .. ARGV[a + n + i - 1] end
  return call('HMGET', key, unpack(names))
end

-- Sells to the n purchases whose arguments begin at ARGV[a].
local function sell(a, n, key, holds, due, events)
  local item, c = read(key, 'shortage', unpack(ARGV, a, a + n - 1))
  if not item then return {'unknown-item'} end
  local terms = item.terms
  local has_holds = terms.hold > 0
  if terms.strategy ~= strategy or has_holds ~= (holds ~= nil) then return {'otherwise', terms.strategy, has_holds and 1 or 0} end
  item.holds, item.due, item.events = holds, due, events

  -- Orders that putback.lua noted as lost, and that are bought again. Only a sale after such a failover needs this key, so it is not declared. It
  -- is read before anything is written: where it alone has moved to another server of a cluster, the call fails, and nothing is sold.
  local shortage = c[5] ~= '0' and key .. ':shortage'
  local notes, again = shortage and call('HMGET', shortage, unpack(ARGV, a, a + n - 1)), {}

  local had = terms.limit > 0 and units_of_users(key, a, n)
  local counter, expires, head, tail = 'sold', 0, 'c ', now_tail
  if has_holds then
    counter, expires, head = 'held', now + terms.hold, 'h '
    tail = now_tail .. ' ' .. string.format('%.0f', expires)
  end

  local reply, new, sold, bought, all_sold = {0, expires}, {}, {}, {}, true
  for i = 1, n do
    local digest = ARGV[a + i - 1]
    local r = c[5 + i] or sold[digest]
    if not r then
      local user, quantity = ARGV[a + n + i - 1], each and ARGV[a + 2 * n + i - 1] or '1'
      local units, before = tonumber(quantity), had and tonumber(bought[user] or had[i] or 0)
      r = refusal(item, now, units, before)
      if not r then
        r = 1
        move(item, units, 'available', counter)
        local record = head .. quantity .. ' ' .. user .. tail
        new[#new + 1], new[#new + 2] = digest, record
        sold[digest] = record
        -- Most purchases are a user's first: then the text is at hand, and to print a number costs more than the rest of this loop.
        if had then bought[user] = before == 0 and quantity or before + units end
        if notes and notes[i] then again[digest] = string.match(notes[i], ' (%d+)') end
      end
    end
    all_sold = all_sold and r == 1
    reply[2 + i] = r
  end

  local told = #new
  if told > 0 then
    for user, units in pairs(bought) do new[#new + 1], new[#new + 2] = '@' .. user, units end
    save(item, new, told)
    if has_holds then
      local entries, text = {}, string.format('%.0f', expires)
      for i = 1, told, 2 do entries[i], entries[i + 1] = text, new[i] end
      hold(item, entries)
    end
    for digest, lost in pairs(again) do
      call('HDEL', shortage, digest)
      add(item, 'shortage', -lost)
    end
  end
  reply[1] = item.available
  if not all_sold then return reply end
  return has_holds and {item.available, expires} or item.available
end

local k, a = 1, 4
while a <= #ARGV do
  local n, key, holds, due, events = tonumber(ARGV[a]), KEYS[k], nil, nil, nil
  if n < 0 then n, k, holds, due = -n, k + 2, KEYS[k + 1], KEYS[k + 2] end
  if streams then k, events = k + 1, KEYS[k + 1] end
  replies[#replies + 1] = sell(a + 1, n, key, holds, due, events)
  k, a = k + 1, a + 1 + (each and 3 or 2) * n
end
return replies
