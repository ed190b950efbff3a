-- Makes a basket in one step, if one Redis holds all keys. It leaves what the steps of line.lua and journal.lua would leave. No client sees a part of
-- it, so it needs no lock, and checks no fencing token.
--
-- KEYS: journal, open (see journal.lua), then of each item: item[, events] (see stock.lua).
-- ARGV: how many keys an item has here, transaction, nonce, now, how long after the end of its hold others may finish it, user,
--   the lines as the journal has them, then of each line: the number of its item (from 1), quantity, digest.
-- Replies the record in the journal: the one that this call wrote, or the one that stood there, and then nothing was done. Or, for the first line
--   that fails, {'unknown-item' | 'not-started' | 'ended' | 'sold-out' | 'limit', its number (from 0), units left of its item}.
--
-- All writes come after everything that can refuse.
local journal, open = KEYS[1], KEYS[2]
local keys, transaction, nonce, now, grace, user, lines = unpack(ARGV, 1, 7)

local standing = call('HGET', journal, transaction)
if standing then return standing end

local items, hold_ms = {}, 0

-- The basket's part of an item; its stock is nil if there is no such item.
local function read_item(i)
  local at = 3 + (i - 1) * keys
  local stock, terms = read(KEYS[at], '@' .. user)
  items[i] = {key = KEYS[at], events = keys == '2' and KEYS[at + 1], stock = stock, terms = terms, had = stock and tonumber(stock[5] or 0),
    wanted = 0, orders = {}}
  return items[i]
end

for at = 8, #ARGV, 3 do
  local i, quantity, digest = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 2]
  local item = items[i] or read_item(i)
  local word = not item.stock and 'unknown-item' or refusal(item.terms, tonumber(now), item.stock[AVAILABLE], item.wanted + quantity, item.had)
  if word then return {word, (at - 8) / 3, item.stock and item.stock[AVAILABLE] or 0} end
  item.wanted = item.wanted + quantity
  local ms = item.terms.hold
  if ms > 0 and (hold_ms == 0 or ms < hold_ms) then hold_ms = ms end
  local orders = item.orders
  orders[#orders + 1], orders[#orders + 2] = digest, quantity
end

-- The shortest hold of its items is that of the basket.
local expires = hold_ms > 0 and string.format('%.0f', now + hold_ms) or '0'
local head = hold_ms > 0 and 'b ' or 'c2 ' -- version 2: in steps it would be held first
local tail = ' ' .. table.concat({user, now, expires, string.sub(transaction, 3)}, ' ')
for _, item in ipairs(items) do
  local orders, told = item.orders, #item.orders
  for i = 2, told, 2 do orders[i] = head .. string.format('%d', orders[i]) .. tail end
  if item.terms.limit > 0 then orders[told + 1], orders[told + 2] = '@' .. user, item.had + item.wanted end
  move(item.key, item.stock, item.wanted, 'available', hold_ms > 0 and 'held' or 'sold', unpack(orders))
  tell(item.events, unpack(orders, 1, told))
end
local record = table.concat({hold_ms > 0 and 'held' or 'confirmed', nonce, now, expires, user, lines}, ' ')
call('HSET', journal, transaction, record)
if hold_ms > 0 then call('ZADD', open, string.format('%.0f', expires + grace), transaction) end
return record
