-- What a transaction (a basket or a transfer) does to one of its items. Each call is idempotent.
--
-- KEYS: item, orders, users, events, token, restocks (one hash tag, so one slot).
-- ARGV: whether the event stream is written (on | off), what, token ('': none is checked, see fenced.lua), then
--   read | read-fenced: user, names of fields. Replies {'read', the item's fields, the user's units}. After `read-fenced` older tokens are refused.
--   debit: now, user, quantity of all lines, n digests, n records. Makes the lines orders, held by their basket or sold, as their records say.
--     Replies {'done'}, {'aborted'}: the transaction was aborted before, {'sold-out', available}, {'limit', units the user may still have},
--     {'not-started'} or {'ended'}.
--   settle: state, user, quantity of all lines, n digests, n records. Ends the orders that `debit` wrote: c confirmed, x cancelled, e expired,
--     u aborted. If there are none, u writes these records instead, so that a late `debit` finds them. Replies {'done'}, {'done', units} that u
--     refunded, or {'otherwise', record}.
--   send | refund | receive: digest, quantity. A transfer: units leave this item, come back to it, or arrive. Replies {'done'}, {'done', units}
--     that came back, {'aborted'} or {'sold-out', available}.
-- Or any: {'stale'} | {'unknown-item'}. The first write is one that Redis refuses when out of memory, so a call is carried out whole or not at all.
local item, orders, users, events, newest_token, restocks = unpack(KEYS)
local streams, what, token = ARGV[1], ARGV[2], ARGV[3]

-- A call that was carried out before needs no token: nothing is written.
local digests, records, standing = {}, {}, {}
if what == 'debit' or what == 'settle' then
  local n = (#ARGV - 6) / 2
  for i = 1, n do
    digests[i], records[i] = ARGV[6 + i], ARGV[6 + n + i]
  end
  standing = redis.call('HMGET', orders, unpack(digests))
  local state = standing[1] and string.sub(standing[1], 1, 1)
  if what == 'debit' and state then return {state == 'u' and 'aborted' or 'done'} end
  if what == 'settle' and state == ARGV[4] then return {'done'} end
elseif what ~= 'read' and what ~= 'read-fenced' then -- a transfer leaves under its digest what was done
  local word = string.match(redis.call('HGET', restocks, ARGV[4]) or '', '^%a+')
  if word == what then return {'done'} end
  if word == 'refund' then return {'aborted'} end
  standing[1] = word
end

local terms = redis.call('HMGET', item, 'available', 'limit', 'starts', 'ends')
if not terms[1] then return {'unknown-item'} end
local available, limit, starts, ends = tonumber(terms[1]), tonumber(terms[2]), tonumber(terms[3]), tonumber(terms[4])

if token ~= '' then
  local newest = redis.call('GET', newest_token)
  if newest and token < newest then return {'stale'} end
  if newest ~= token and what ~= 'read' then redis.call('SET', newest_token, token) end
end

local function write(new)
  local fields = {}
  for i = 1, #digests do
    fields[2 * i - 1], fields[2 * i] = digests[i], new[i]
  end
  redis.call('HSET', orders, unpack(fields))
  if streams == 'on' then redis.call('XADD', events, '*', unpack(fields)) end
end

local function move(sign)
  redis.call('HSET', restocks, ARGV[4], what .. ' ' .. ARGV[5])
  if streams == 'on' then redis.call('XADD', events, '*', 'transfer', sign .. ARGV[5]) end
  redis.call('HINCRBY', item, 'available', sign .. ARGV[5])
  redis.call('HINCRBY', item, 'restocked', sign .. ARGV[5])
end

local act = {}

function act.read()
  return {'read', redis.call('HMGET', item, unpack(ARGV, 5)), redis.call('HGET', users, ARGV[4])}
end

act['read-fenced'] = act.read

function act.debit()
  local now, user, quantity = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
  if starts > 0 and now < starts then return {'not-started'} end
  if ends > 0 and now >= ends then return {'ended'} end
  if quantity > available then return {'sold-out', available} end
  local had = limit > 0 and tonumber(redis.call('HGET', users, user) or 0)
  if had and had + quantity > limit then return {'limit', limit - had} end
  write(records)
  redis.call('HINCRBY', item, 'available', -quantity)
  redis.call('HINCRBY', item, string.sub(records[1], 1, 1) == 'c' and 'sold' or 'held', quantity)
  if had then redis.call('HINCRBY', users, user, quantity) end
  return {'done'}
end

function act.settle()
  local state, user, quantity = ARGV[4], ARGV[5], ARGV[6]
  if not standing[1] and state == 'u' then
    write(records)
    redis.call('HINCRBY', item, 'returned', quantity)
    return {'done'}
  end
  if not standing[1] or string.sub(standing[1], 1, 1) ~= 'b' then return {'otherwise', standing[1] or ''} end
  for i = 1, #digests do
    local version, rest = string.match(standing[i], '^%a(%d*)(.*)')
    records[i] = state .. (tonumber(version) or 1) + 1 .. rest
  end
  write(records)
  redis.call('HINCRBY', item, 'held', -quantity)
  redis.call('HINCRBY', item, state == 'c' and 'sold' or 'available', quantity)
  if state ~= 'c' then redis.call('HINCRBY', item, 'returned', quantity) end
  if state ~= 'c' and limit > 0 then redis.call('HINCRBY', users, user, -quantity) end
  return {'done', state == 'u' and tonumber(quantity) or nil}
end

function act.send()
  if tonumber(ARGV[5]) > available then return {'sold-out', available} end
  move('-')
  return {'done'}
end

function act.refund()
  if standing[1] then
    move('')
    return {'done', tonumber(ARGV[5])}
  end
  redis.call('HSET', restocks, ARGV[4], 'refund 0')
  return {'done'}
end

function act.receive()
  move('')
  return {'done'}
end

return act[what]()
