-- A basket in one step, if one Redis holds all keys. It leaves what the steps of line.lua and journal.lua would leave, and no client sees a part
-- of it: so it needs no lock, and checks no fencing token.
--
-- KEYS: journal, open (see journal.lua), then of each item: item, orders, users, events.
-- ARGV: whether the event stream is written (on | off), transaction, nonce, now, how long after the end of its hold others may finish it, user,
--   the lines as the journal has them, then of each line: the number of its item (from 1), quantity, digest.
-- Replies the record in the journal: what this call wrote, or what stood there, and then nothing was done. Or, for the first line that fails,
--   {'unknown-item' | 'not-started' | 'ended' | 'sold-out' | 'limit', its number (from 0), units left of its item}.
--
-- All writes come after everything that can refuse, and the first is one that Redis refuses when out of memory. So the call is carried out whole
-- or not at all.
local journal, open = KEYS[1], KEYS[2]
local streams, transaction, nonce, now, grace, user, lines = unpack(ARGV, 1, 7)

local standing = redis.call('HGET', journal, transaction)
if standing then return standing end

local items, hold = {}, 0

local function read(i)
  local at = 4 * i
  local c = redis.call('HMGET', KEYS[at - 1], 'available', 'limit', 'starts', 'ends', 'hold')
  items[i] = {item = KEYS[at - 1], orders = KEYS[at], users = KEYS[at + 1], events = KEYS[at + 2], wanted = 0, written = {},
    available = tonumber(c[1]), limit = tonumber(c[2]), starts = tonumber(c[3]), ends = tonumber(c[4]), hold = tonumber(c[5])}
  if c[1] then items[i].had = tonumber(redis.call('HGET', KEYS[at + 1], user) or 0) end
  return items[i]
end

local function refusal(item)
  if not item.available then return 'unknown-item' end
  if item.starts > 0 and tonumber(now) < item.starts then return 'not-started' end
  if item.ends > 0 and tonumber(now) >= item.ends then return 'ended' end
  if item.wanted > item.available then return 'sold-out' end
  if item.limit > 0 and item.had + item.wanted > item.limit then return 'limit' end
end

for at = 8, #ARGV, 3 do
  local i, quantity, digest = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2]
  local item = items[i] or read(i)
  item.wanted = item.wanted + quantity
  local word = refusal(item)
  if word then return {word, (at - 8) / 3, item.available or 0} end
  if item.hold > 0 and (hold == 0 or item.hold < hold) then hold = item.hold end
  local w = item.written
  w[#w + 1], w[#w + 2] = digest, quantity
end

-- The shortest hold of its items is that of the basket.
local expires = hold > 0 and string.format('%.0f', now + hold) or '0'
local head = hold > 0 and 'b ' or 'c2 ' -- in steps it is held first
local tail = ' ' .. table.concat({user, now, expires, string.sub(transaction, 3)}, ' ')
for _, item in ipairs(items) do
  local w = item.written
  for i = 2, #w, 2 do w[i] = head .. w[i] .. tail end
  redis.call('HSET', item.orders, unpack(w))
  if streams == 'on' then redis.call('XADD', item.events, '*', unpack(w)) end
  redis.call('HINCRBY', item.item, 'available', -item.wanted)
  redis.call('HINCRBY', item.item, hold > 0 and 'held' or 'sold', item.wanted)
  if item.limit > 0 then redis.call('HINCRBY', item.users, user, item.wanted) end
end
local record = table.concat({hold > 0 and 'held' or 'confirmed', nonce, now, expires, user, lines}, ' ')
redis.call('HSET', journal, transaction, record)
if hold > 0 then redis.call('ZADD', open, string.format('%.0f', expires + grace), transaction) end
return record
