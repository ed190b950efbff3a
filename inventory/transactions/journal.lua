-- The journal of transactions. KEYS: journal (hash: transaction -> record), open (sorted set: transaction by when others may look after it), domain (see
-- domain.lua), one slot.
-- A record is PHASE NONCE and more, see journal.c.
--
-- ARGV: `move`, transaction, from, to, due, epoch of the caller's locks ('': he has none). The one step by which a transaction goes on: replaces what begins
--   with `from` ('': there is nothing) by `to` ('': by nothing), and others may look after it from `due` on ('': never). Replies 1 (also
--   where that was done before), or what stands there instead (false: nothing), or -1: another lock has come in force since, and whoever had
--   the old one decides nothing any more.
-- ARGV: `claim`, now, until, most. Transactions that are due, at most so many, which are nobody else's `until` then. Replies {transaction, record, …}.
local journal, open, domain = KEYS[1], KEYS[2], KEYS[3]

if ARGV[1] == 'move' then
  local _, transaction, from, to, due, epoch = unpack(ARGV)
  local standing = redis.call('HGET', journal, transaction)
  if epoch ~= '' and tonumber(epoch) < tonumber(redis.call('HGET', domain, 'in_force') or 0) then return -1 end
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
