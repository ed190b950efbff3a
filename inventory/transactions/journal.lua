-- The journal of transactions. KEYS: journal (hash: transaction -> record), open (sorted set: transaction by the time from which others may
-- finish it), lock epoch (see epoch.lua); one slot. A record is PHASE NONCE and more, see journal.h.
--
-- ARGV: `move`, transaction, from, to, due, epoch of the caller's locks ('': it has none). The one step by which a transaction goes on: replaces
--   the record that begins with `from` ('': there is none) by `to` ('': by none). Others may finish it from `due` on ('': there is nothing to
--   finish). Replies 1 (also if that was done before), or the record that stands there instead (false: none), or -1: a newer lock epoch is in
--   force, and a holder of the old lock decides nothing any more.
-- ARGV: `claim`, now, until, most. Up to `most` transactions that are due; others leave them alone `until` then. Replies {transaction, record, ...}.
local journal, open, lock_epoch = KEYS[1], KEYS[2], KEYS[3]

if ARGV[1] == 'move' then
  local _, transaction, from, to, due, epoch = unpack(ARGV)
  local standing = redis.call('HGET', journal, transaction)
  if epoch ~= '' and tonumber(epoch) < tonumber(redis.call('HGET', lock_epoch, 'in_force') or 0) then return -1 end
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
