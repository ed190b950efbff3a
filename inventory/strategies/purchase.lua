-- Sells items to all purchases that wait for them, in one call. This is the whole sale of the strategies `batch` and `lua`.
--
-- KEYS: for each item: item[, holds, due][, events] (see stock.lua; on Redis Cluster all items of a call are of one part).
-- ARGV: the strategy that the caller expects (`batch` or `lua`); whether the event stream is written (on | off); whether each purchase
--   has a quantity (each), or is for one unit (ones). Then for each item: 4 n, plus 2 if it has a limit, plus 1 if it has holds (then its keys of
--   holds are there), n digests, n users (with a limit: their fields, @USER)[, n quantities].
-- Replies {now, reply of the first item, ...}. The reply of an item: `available` if all were sold and there are no holds, as in
--   most of a sale; {available, expiry of the holds} if all were sold; otherwise {available, expiry, r1 .. rn}, each r 1 sold | a record: this key
--   has its order already | 'sold-out' | 'limit' | 'not-started' | 'ended'. Or {'unknown-item'}; or {'otherwise', terms}: the caller expected
--   other terms, and nothing is sold; or {'failed', error, written}: the item cannot be sold, for somebody else wrote into it. If
--   `written` is 0, nothing was sold; if it is 1, orders may have been written.
-- Times (ms) are of this server's clock, so that all instances agree on when a sale begins.
local k, a = 1, 4 -- where the keys and the arguments of the next item begin
local written -- the number of the item that this call has written last

-- Nearly all purchases are a user's first. Then the text of the user's total is the quantity; printing a number costs more than all else here.

-- Decides n purchases of an item, one after the other. Returns what to write ({digest, record[, user, total], ...}), the units that are left, and
-- the results, from the third on.
local function decide(item, terms, n, at, each, now, head, tail)
  local left, limited, w = item[AVAILABLE], terms.limit > 0, 0
  local new, results, sold, totals, sub = {}, {0, 0}, {}, {}, string.sub
  for i = 1, n do
    local digest = ARGV[at + i - 1]
    local r = item[5 + i] or sold[digest]
    if not r then
      local user, quantity = ARGV[at + n + i - 1], each and ARGV[at + 2 * n + i - 1] or '1'
      local units, before = each and tonumber(quantity) or 1, limited and (totals[user] or item[5 + n + i]) or 0
      r = refusal(terms, now, left, units, before)
      if not r then
        local record = head .. quantity .. ' ' .. (limited and sub(user, 2) or user) .. tail
        left = left - units
        sold[digest] = record
        new[w + 1], new[w + 2] = digest, record
        w = w + 2
        if limited then
          local total = before == 0 and quantity or before + units
          totals[user] = total
          new[w + 1], new[w + 2] = user, total
          w = w + 2
        end
      end
    end
    results[2 + i] = r or 1
  end
  return new, left, results
end

-- What follows the sale of orders {digest, record, ...}, of which each takes `step` places: events and holds.
local function follow(new, step, key, holds, due, events, expires)
  for i = 1, events and #new or 0, step do tell(events, new[i], new[i + 1]) end
  local entries, e = {}, 0
  for i = 1, holds and #new or 0, step do
    entries[e + 1], entries[e + 2] = expires, new[i]
    e = e + 2
  end
  if holds then hold(key, holds, due, entries) end
end

-- Removes the notes of lost orders that were bought again.
local function forget(notes, results, key, n, at)
  for i = 1, n do
    if notes[i] and results[2 + i] == 1 then
      call('HDEL', key .. ':shortage', ARGV[at + i - 1])
      add(key, 'shortage', 0 - string.match(notes[i], ' (%d+)'))
    end
  end
end

-- Sells the items from `k` and `a` on, and appends their replies. An error ends it at one item; the next call begins behind that.
local function sell(replies, strategy, streams, each)
  local now, number, last, sub = replies[1], #replies, #ARGV, string.sub
  local now_tail = string.format(' %.0f', now)
  while a <= last do
    local what, at, key, holds, due, events = ARGV[a] + 0, a + 1, KEYS[k], nil, nil, nil
    local flags = what % 4
    local n, limited = (what - flags) / 4, flags >= 2
    k, a, number = k + 1, at + (each and 3 or 2) * n, number + 1
    if flags % 2 == 1 then k, holds, due = k + 2, KEYS[k], KEYS[k + 1] end
    if streams then k, events = k + 1, KEYS[k] end
    -- n orders, and what n users have:
    local item, terms = read(key, 'shortage', unpack(ARGV, at, at + (limited and 2 or 1) * n - 1))
    if not item then
      replies[number] = {'unknown-item'}
    elseif terms.strategy ~= strategy or (terms.limit > 0) ~= limited or (terms.hold > 0) ~= (holds ~= nil) then
      replies[number] = {'otherwise', item[1]}
    else
      local place, head, tail, expires, results = 'sold', 'c ', now_tail, 0, nil
      if holds then
        place, head, expires = 'held', 'h ', string.format('%.0f', now + terms.hold)
        tail = now_tail .. ' ' .. expires
      end
      if n == 1 and item[5] == '0' then -- most calls of a sale of many items consist of this, so it makes no needless table
        local digest, user, quantity = ARGV[at], ARGV[at + 1], each and ARGV[at + 2] or '1'
        local units, before = each and tonumber(quantity) or 1, item[7] or 0
        local r = item[6] or refusal(terms, now, item[AVAILABLE], units, before)
        if r then
          results = {0, 0, r}
        else
          local record = head .. quantity .. ' ' .. (limited and sub(user, 2) or user) .. tail
          if limited then
            move(key, item, units, 'available', place, digest, record, user, before == 0 and quantity or before + units)
          else
            move(key, item, units, 'available', place, digest, record)
          end
          written = number
          if holds or events then follow({digest, record}, 2, key, holds, due, events, expires) end
        end
      else
        -- The notes of putback.lua tell which of these orders were lost and are bought again. Only a sale after such a failover needs the key, so
        -- it is not declared. It is read before anything is written: if it alone has moved to another server of a cluster, the item fails unsold.
        local notes = item[5] ~= '0' and call('HMGET', key .. ':shortage', unpack(ARGV, at, at + n - 1))
        local step, new, left = limited and 4 or 2, nil, nil
        new, left, results = decide(item, terms, n, at, each, now, head, tail)
        if left < item[AVAILABLE] then
          move(key, item, item[AVAILABLE] - left, 'available', place, unpack(new))
          written = number
          follow(new, step, key, holds, due, events, expires)
          if notes then forget(notes, results, key, n, at) end
        end
        if #new == n * step then results = nil end
      end
      if results then results[1], results[2] = item[AVAILABLE], expires end
      replies[number] = results or holds and {item[AVAILABLE], expires} or item[AVAILABLE]
    end
  end
end

local replies = {clock()}
repeat
  local begun = a
  local ok, text = pcall(sell, replies, ARGV[1], ARGV[2] == 'on', ARGV[3] == 'each')
  if not ok then
    -- What is wrong with one item does not keep the others from being sold. What is wrong with the store (READONLY, OOM, ...) shows at the first
    -- write, and fails the whole call. So do arguments that cannot be read.
    local code = string.match(text, '^%u+ ') or string.match(text, '^@user_script: %d+: %-(%u+ )') -- since Redis 7; before
    if a == begun or not written and code and code ~= 'ERR ' and code ~= 'WRONGTYPE ' then return redis.error_reply(text) end
    local number = #replies + 1
    replies[number] = {'failed', text, written == number and 1 or 0}
  end
until ok
return replies
