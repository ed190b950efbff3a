-- Puts an order back that was acknowledged, and that a failover of the store lost: a replica was promoted that had not got it yet.
--
-- KEYS: item, orders, users, holds, events, shortage (hash: digest -> record of an order that does not fit any more); one hash tag, so one slot.
-- ARGV: whether the event stream is written (on | off), digest, the record as it was acknowledged last.
-- Replies 'there': the order stands, in this state or a later one. 'back': it does now. 'short': its units were sold again since; this was
--   noted just now. 'noted': it was before. 'unknown-item': the item is gone too.
-- The first write is one that Redis refuses when out of memory, so a call is carried out whole or not at all.
local item, orders, users, holds, events, shortage = unpack(KEYS)
local streams, digest, record = unpack(ARGV)
local state, quantity, user, rest = string.match(record, '^(%a) (%d+) (%S+) %d+ ?(.*)')
local due = string.match(rest, '^(%d+)')

local c = redis.call('HMGET', item, 'available', 'limit')
if not c[1] then return 'unknown-item' end
local standing = redis.call('HGET', orders, digest)
local was = standing and string.sub(standing, 1, 1)
local function home(letter) return letter == 'h' and 'held' or letter == 'c' and 'sold' or 'available' end
local function is_returned(letter) return letter == 'x' or letter == 'e' end

local lost = not was or (was == 'h' and (state == 'c' or state == 'x')) or (was == 'e' and state == 'c')
if not lost then return 'there' end

local from, to = home(was), home(state)
if from == 'available' and to ~= 'available' and tonumber(quantity) > tonumber(c[1]) then
  if redis.call('HSETNX', shortage, digest, record) == 0 then return 'noted' end
  redis.call('HINCRBY', item, 'shortage', quantity)
  return 'short'
end

redis.call('HSET', orders, digest, record)
if streams == 'on' then redis.call('XADD', events, '*', digest, record) end
if from ~= to then
  redis.call('HINCRBY', item, from, -quantity)
  redis.call('HINCRBY', item, to, quantity)
end
if is_returned(was) then redis.call('HINCRBY', item, 'returned', -quantity) end
if is_returned(state) then redis.call('HINCRBY', item, 'returned', quantity) end
if tonumber(c[2]) > 0 and from ~= to and (from == 'available' or to == 'available') then
  redis.call('HINCRBY', users, user, to == 'available' and -quantity or quantity)
end
if state == 'h' then
  redis.call('ZADD', holds, due, digest)
else
  redis.call('ZREM', holds, digest)
end
return 'back'
