-- One part of the journal of transactions. KEYS, all in one slot: journal (hash: transaction -> record), open (sorted set: transaction by the time
-- from which others may finish it), epoch (the newest lock epoch that has grants). A record is PHASE NONCE and more, see journal.c.
--
-- ARGV: `move`, transaction, from, to, due, epoch of the caller's locks ('': it has none). The one step by which a transaction goes on. Replaces the
--   record if it begins with `from` ('': there must be none) by `to` ('': removes it). Others may finish the transaction from `due` on ('': there is
--   nothing to finish). Replies 1 (also if that was done before), or the record that stands there instead (false: none), or -1: a newer lock epoch
--   is in force, and a holder of the old lock decides nothing any more.
-- ARGV: `raise`, epoch, whether to make all keys exist (yes | no). There will be grants of this lock epoch, and there are no older grants. While a
--   slot of a cluster moves, a server refuses a script with a missing key (TRYAGAIN). Replies 1.
-- ARGV: `claim`, now, until, most. Claims up to `most` due transactions; other claims leave them alone until then. Replies {transaction, record,
--   ...}.
local journal, open, newest = KEYS[1], KEYS[2], KEYS[3]

-- Notes the epoch. Returns whether it is the newest one.
local function raise(epoch)
  local known = tonumber(redis.call('GET', newest) or 0)
  if tonumber(epoch) > known then redis.call('SET', newest, epoch) end
  return tonumber(epoch) >= known
end

if ARGV[1] == 'raise' then
  raise(ARGV[2])
  if ARGV[3] == 'yes' then
    redis.call('HSETNX', journal, '', '')
    redis.call('ZADD', open, '+inf', '')
  end
  return 1
end

if ARGV[1] == 'move' then
  local _, transaction, from, to, due, epoch = unpack(ARGV)
  local standing = redis.call('HGET', journal, transaction)
  if epoch ~= '' and not raise(epoch) then return -1 end
  if (standing or '') ~= to then
    if from == '' and standing then return standing end
    if from ~= '' and (not standing or string.sub(standing, 1, #from) ~= from) then return standing end
    if to ~= '' then
      redis.call('HSET', journal, transaction, to)
    else
      redis.call('HDEL', journal, transaction)
    end
  end
  if due ~= '' then
    redis.call('ZADD', open, due, transaction)
  else
    redis.call('ZREM', open, transaction)
  end
  return 1
end

local _, now, til, most = unpack(ARGV)
local claimed = {}
for _, transaction in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', now, 'LIMIT', 0, most)) do
  local record = redis.call('HGET', journal, transaction)
  if record then
    claimed[#claimed + 1], claimed[#claimed + 2] = transaction, record
    redis.call('ZADD', open, til, transaction)
  else
    redis.call('ZREM', open, transaction)
  end
end
return claimed
