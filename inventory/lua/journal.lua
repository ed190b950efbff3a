-- The journal of deals. KEYS: journal (hash: deal -> record), open (sorted set: deal by when others may look after it), one slot.
-- A record is PHASE NONCE and more, see journal.c.
--
-- ARGV: `move`, deal, from, to, due. The one step by which a deal goes on: replaces what begins with `from` ('': there is nothing) by `to`
--   ('': by nothing), and others may look after it from `due` on ('': never). Replies 1 (also where that was done before), or what stands
--   there instead (false: nothing).
-- ARGV: `claim`, now, until, most. Deals that are due, at most so many, which are nobody else's `until` then. Replies {deal, record, …}.
local journal, open = KEYS[1], KEYS[2]

if ARGV[1] == 'move' then
  local _, deal, from, to, due = unpack(ARGV)
  local standing = redis.call('HGET', journal, deal)
  if (standing or '') ~= to then
    if from == '' and standing then return standing end
    if from ~= '' and (not standing or string.sub(standing, 1, #from) ~= from) then return standing end
    if to ~= '' then
      redis.call('HSET', journal, deal, to)
    else
      redis.call('HDEL', journal, deal)
    end
  end
  if due ~= '' then
    redis.call('ZADD', open, due, deal)
  else
    redis.call('ZREM', open, deal)
  end
  return 1
end

local _, now, til, most = unpack(ARGV)
local claimed = {}
for _, deal in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', now, 'LIMIT', 0, most)) do
  local record = redis.call('HGET', journal, deal)
  if record then
    claimed[#claimed + 1], claimed[#claimed + 2] = deal, record
    redis.call('ZADD', open, til, deal)
  else
    redis.call('ZREM', open, deal)
  end
end
return claimed
