-- What becomes of a hold: confirm, cancel, expire. Also the way to read one order, since a hold that is due expires when it is looked at.
--
-- KEYS: item, orders, users, holds, ledger. ARGV: what, now (the seller's wall clock, ms), then
--   what = get | confirm | cancel: a digest. Replies its record after the step, or false where there is no such order.
--   what = sweep: how many at most. Expires the holds that are due; replies how many it expired.
-- A settled order stays as it is, so each of these can be repeated, and the one that came first wins.
local item, orders, users, holds, ledger = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local what, now = ARGV[1], tonumber(ARGV[2])

local function settle(digest, record, state)
  local quantity, user = string.match(record, '^h (%d+) (%S+)')
  record = state .. string.sub(record, 2)
  redis.call('HSET', orders, digest, record)
  redis.call('XADD', ledger, '*', digest, record)
  redis.call('ZREM', holds, digest)
  redis.call('HINCRBY', item, 'held', -quantity)
  if state == 'c' then
    redis.call('HINCRBY', item, 'sold', quantity)
  else
    redis.call('HINCRBY', item, 'available', quantity)
    if tonumber(redis.call('HGET', item, 'limit')) > 0 then redis.call('HINCRBY', users, user, -quantity) end
  end
  return record
end

if what == 'sweep' then
  local due = redis.call('ZRANGEBYSCORE', holds, '-inf', now, 'LIMIT', 0, ARGV[3])
  for _, digest in ipairs(due) do
    local record = redis.call('HGET', orders, digest)
    if record and string.find(record, '^h %d+ %S') then
      settle(digest, record, 'e')
    else
      redis.call('ZREM', holds, digest) -- it is no hold: `decr`, interrupted, may leave such an entry
    end
  end
  return #due
end

local digest = ARGV[3]
local record = redis.call('HGET', orders, digest)
if record and string.sub(record, 1, 1) == 'h' then
  if tonumber(string.match(record, '(%d+)$')) <= now then
    record = settle(digest, record, 'e')
  elseif what == 'confirm' then
    record = settle(digest, record, 'c')
  elseif what == 'cancel' then
    record = settle(digest, record, 'x')
  end
end
return record
