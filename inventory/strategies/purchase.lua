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
local sub = string.sub
local strategy, streams, each = ARGV[1], ARGV[2] == 'on', ARGV[3] == 'each'
local now = clock()
local now_tail = format(' %.0f', now)
local written -- the item that this call has written last

-- Reads which orders of these n purchases putback.lua noted as lost: they are bought again. Only a sale after such a failover needs the key, so it is
-- not declared. It is read before anything is written: if it alone has moved to another server of a cluster, the item fails unsold.
local function read_notes(item, key, a, n)
  return item[5] ~= '0' and call('HMGET', key .. ':shortage', unpack(ARGV, a, a + n - 1))
end

-- Removes the note of a lost order that was bought again.
local function forget(key, notes, digest, i)
  if notes and notes[i] then
    call('HDEL', key .. ':shortage', digest)
    add(key, 'shortage', 0 - match(notes[i], ' (%d+)'))
  end
end

-- Nearly all purchases are a user's first. Then the text of the user's total is the quantity; printing a number costs more than all else here.

-- Sells an item to one purchase. Most calls of a sale of many items consist of this, so it makes no needless table.
local function sell_one(a, item, terms, key, holds, due, events, place, expires, head, tail)
  local digest, user, quantity, limited = ARGV[a], ARGV[a + 1], each and ARGV[a + 2] or '1', terms.limit > 0
  local before = limited and tonumber(item[7] or 0)
  local r = item[6] or refusal(terms, now, item[AVAILABLE], tonumber(quantity), before)
  if r then return {item[AVAILABLE], expires, r} end
  local notes = read_notes(item, key, a, 1)
  local record = head .. quantity .. ' ' .. (limited and sub(user, 2) or user) .. tail
  move(key, item, quantity, AVAILABLE, place,
    limited and {digest, record, user, before == 0 and quantity or before + quantity} or {digest, record})
  written = key
  tell(events, digest, record)
  if holds then hold(key, holds, due, {expires, digest}) end
  forget(key, notes, digest, 1)
end

-- Sells an item to n purchases, one after the other.
local function sell_many(a, n, item, terms, key, holds, due, events, place, expires, head, tail)
  local notes, limited, all_sold = read_notes(item, key, a, n), terms.limit > 0, true
  local left, w, step = item[AVAILABLE], 0, limited and 4 or 2
  local reply, new, sold, totals = {0, expires}, {}, {}, {}
  for i = 1, n do
    local digest = ARGV[a + i - 1]
    local r = item[5 + i] or sold[digest]
    if not r then
      local user, quantity = ARGV[a + n + i - 1], each and ARGV[a + 2 * n + i - 1] or '1'
      local units, before = tonumber(quantity), limited and tonumber(totals[user] or item[5 + n + i] or 0)
      r = refusal(terms, now, left, units, before)
      if not r then
        local record = head .. quantity .. ' ' .. (limited and sub(user, 2) or user) .. tail
        left = left - units
        sold[digest] = record
        new[w + 1], new[w + 2] = digest, record
        if limited then
          local total = before == 0 and quantity or before + units
          totals[user] = total
          new[w + 3], new[w + 4] = user, total
        end
        w = w + step
      end
    end
    all_sold = all_sold and not r
    reply[2 + i] = r or 1
  end
  reply[1] = left
  if w > 0 then
    move(key, item, item[AVAILABLE] - left, AVAILABLE, place, new)
    written = key
    for i = 1, events and w or 0, step do tell(events, new[i], new[i + 1]) end
    if holds then
      local entries, e = {}, 0
      for i = 1, w, step do
        entries[e + 1], entries[e + 2] = expires, new[i]
        e = e + 2
      end
      hold(key, holds, due, entries)
    end
    for i = 1, notes and n or 0 do
      if reply[2 + i] == 1 then forget(key, notes, ARGV[a + i - 1], i) end
    end
  end
  return not all_sold and reply or nil
end

-- Sells to the n purchases whose arguments begin at ARGV[a].
local function sell(a, n, limited, key, holds, due, events)
  local item, terms = read(key, 'shortage', unpack(ARGV, a, a + (limited and 2 or 1) * n - 1)) -- n orders, and what n users have
  if not item then return {'unknown-item'} end
  if terms.strategy ~= strategy or (terms.limit > 0) ~= limited or (terms.hold > 0) ~= (holds ~= nil) then return {'otherwise', item[1]} end
  local place, expires, head, tail = SOLD, 0, 'c ', now_tail
  if holds then
    place, expires, head = HELD, format('%.0f', now + terms.hold), 'h '
    tail = now_tail .. ' ' .. expires
  end
  local reply
  if n == 1 then
    reply = sell_one(a, item, terms, key, holds, due, events, place, expires, head, tail)
  else
    reply = sell_many(a, n, item, terms, key, holds, due, events, place, expires, head, tail)
  end
  return reply or holds and {item[AVAILABLE], expires} or item[AVAILABLE]
end

local replies, r, k, a, last = {now}, 1, 1, 4, #ARGV
while a <= last do
  local what, key, ok, holds, due, events = ARGV[a] + 0, KEYS[k], nil, nil, nil, nil
  local n = (what - what % 4) / 4
  if what % 2 == 1 then k, holds, due = k + 2, KEYS[k + 1], KEYS[k + 2] end
  if streams then k, events = k + 1, KEYS[k + 1] end
  r = r + 1
  ok, replies[r] = pcall(sell, a + 1, n, what % 4 >= 2, key, holds, due, events)
  if not ok then
    -- What is wrong with one item does not keep the others from being sold. What is wrong with the store (READONLY, OOM, ...) shows at the first
    -- write, and fails the whole call.
    local text = replies[r]
    local code = match(text, '^%u+ ') or match(text, '^@user_script: %d+: %-(%u+ )') -- since Redis 7; before
    if not written and code and code ~= 'ERR ' and code ~= 'WRONGTYPE ' then return redis.error_reply(text) end
    replies[r] = {'failed', text, written == key and 1 or 0}
  end
  k, a = k + 1, a + 1 + (each and 3 or 2) * n
end
return replies
