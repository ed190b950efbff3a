-- What a transaction (a basket or a transfer) does to one of its items. Each call is idempotent.
--
-- KEYS: item, orders, users, events, token, restocks, shortage (see putback.lua); one hash tag, so one slot.
-- ARGV: whether the event stream is written (on | off), what, token ('': none is checked, see fenced.lua), then
--   read | read-fenced: user, names of fields. Replies {'read', the item's fields, the user's units}. After `read-fenced` older tokens are refused.
--   debit: now, user, quantity of all lines, n digests, n records. Makes the lines orders, held by their basket or sold, as their records say.
--     Replies {'done'}, {'aborted'}: the transaction was aborted before, {'sold-out', available}, {'limit', units the user may still have},
--     {'not-started'} or {'ended'}.
--   settle: state, user, quantity of all lines, n digests, n records. Ends the orders that `debit` wrote: c confirmed, x cancelled, e expired,
--     u aborted. An order that is not there is written as these records say: of u, so that a late `debit` finds it; of the others it was lost in
--     a failover, and c takes its units anew; also of one that has ended, if it is noted as lost. One that was aborted, since the decision was lost,
--     has given its units back, and ends as x or e. Replies {'done'}, {'done', units} that u refunded, {'short'}: c cannot take them, and it is
--     noted that they are lost (see putback.lua), or {'otherwise', record}.
--   disown: the same with u, and ends confirmed orders too. Those that were cancelled, or expired, have no units.
--   send | refund | receive: digest, quantity, transfer. A transfer: units leave this item, come back to it, or arrive. Replies {'done'}, {'done', units}
--     that came back, {'aborted'} or {'sold-out', available}.
--   take-back: digest, quantity, transfer. Undoes receive, if that was done; after it `refund` is right at the sender. Replies {'done'} or
--     {'sold-out', available}: the units are sold by now, and nothing is undone.
-- What is undone is not noted as a shortage any more (see putback.lua).
-- Or any: {'stale'} | {'unknown-item'}. The first write is one that Redis refuses when out of memory, so a call is carried out whole or not at all.
local item, orders, users, events, newest_token, restocks, shortage = unpack(KEYS)
local streams, what, token = ARGV[1], ARGV[2], ARGV[3]

-- A call that was carried out before needs no token: nothing is written.
local digests, records, standing = {}, {}, {}
local function letter(i) return standing[i] and string.sub(standing[i], 1, 1) end
if what == 'debit' or what == 'settle' or what == 'disown' then
  local n, settled = (#ARGV - 6) / 2, true
  for i = 1, n do
    digests[i], records[i] = ARGV[6 + i], ARGV[6 + n + i]
  end
  standing = redis.call('HMGET', orders, unpack(digests))
  for i = 1, n do
    if what == 'debit' and letter(i) == 'u' then return {'aborted'} end
    settled = settled and standing[i] and (what == 'debit' or letter(i) == ARGV[4])
  end
  if settled then return {'done'} end
elseif what ~= 'read' and what ~= 'read-fenced' then -- a transfer leaves under its digest what was done
  local word = string.match(redis.call('HGET', restocks, ARGV[4]) or '', '^%a+')
  if word == what then return {'done'} end
  if word == 'refund' then return {what == 'take-back' and 'done' or 'aborted'} end
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

local function move(sign, word)
  redis.call('HSET', restocks, ARGV[4], word .. ' ' .. ARGV[5] .. ' ' .. ARGV[6])
  if streams == 'on' then redis.call('XADD', events, '*', 'transfer', sign .. ARGV[5]) end
  redis.call('HINCRBY', item, 'available', sign .. ARGV[5])
  redis.call('HINCRBY', item, 'restocked', sign .. ARGV[5])
end

local function add(key, field, n)
  if n ~= 0 then redis.call('HINCRBY', key, field, n) end
end

local function forget_shortage(digest)
  local note = redis.call('HGET', shortage, digest)
  if note then
    redis.call('HDEL', shortage, digest)
    add(item, 'shortage', 0 - string.match(note, ' (%d+)'))
  end
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
  local counter = string.sub(records[1], 1, 1) == 'c' and 'sold' or 'held'
  for i = 1, #digests do -- of two lines one may have been put back after a failover
    if standing[i] then
      quantity = quantity - string.match(records[i], ' (%d+)')
      records[i] = standing[i]
    end
  end
  if quantity > available then return {'sold-out', available} end
  local had = limit > 0 and tonumber(redis.call('HGET', users, user) or 0)
  if had and had + quantity > limit then return {'limit', limit - had} end
  write(records)
  redis.call('HINCRBY', item, 'available', -quantity)
  redis.call('HINCRBY', item, counter, quantity)
  if had then redis.call('HINCRBY', users, user, quantity) end
  return {'done'}
end

function act.settle()
  local state, user, held, sold, lacking, expired, noted, ended = ARGV[4], ARGV[5], 0, 0, 0, 0, true, what == 'disown'
  for i = 1, #digests do
    local was, quantity = letter(i), tonumber(string.match(records[i], ' (%d+)'))
    local is_noted = state == 'c' and was ~= 'b' and was ~= 'c' and redis.call('HEXISTS', shortage, digests[i]) == 1
    local is_lost = was and is_noted -- that it was confirmed before it was taken for expired, cancelled or not decided
    local is_aborted = was == 'u' and (state == 'x' or state == 'e')
    ended = ended or is_aborted
    if not was then
      records[i] = state .. string.sub(records[i], 2)
    elseif was == 'b' or is_lost or is_aborted or what == 'disown' and was ~= 'u' then
      local version, rest = string.match(standing[i], '^%a(%d*)(.*)')
      records[i] = state .. (tonumber(version) or 1) + 1 .. rest
    elseif was == state then
      records[i] = standing[i]
    else
      return {'otherwise', standing[i]}
    end
    if not was or is_lost then
      lacking, noted = lacking + quantity, noted and is_noted
    elseif was == 'b' then
      held = held + quantity
    elseif was == 'c' and state == 'u' then
      sold = sold + quantity
    end
    if is_lost then expired = expired + quantity end
  end
  local back, had = state == 'c' and 0 - lacking or held + sold, limit > 0 and tonumber(redis.call('HGET', users, user) or 0)
  if back < 0 and (lacking > available or had and had + lacking > limit) then return noted and {'short'} or {'otherwise', ''} end
  write(records)
  add(item, 'held', 0 - held)
  add(item, 'sold', state == 'c' and held + lacking or 0 - sold)
  add(item, 'available', back)
  add(item, 'returned', state == 'c' and 0 - expired or held + sold + lacking)
  if had then add(users, user, 0 - back) end
  for i = 1, (lacking > 0 or ended) and #digests or 0 do
    forget_shortage(digests[i])
  end
  return {'done', state == 'u' and back > 0 and back or nil}
end

act.disown = act.settle

function act.send()
  if tonumber(ARGV[5]) > available then return {'sold-out', available} end
  move('-', what)
  return {'done'}
end

function act.refund()
  if standing[1] then
    move('', 'refund')
  else
    redis.call('HSET', restocks, ARGV[4], 'refund 0')
  end
  forget_shortage(ARGV[4])
  return {'done', standing[1] and tonumber(ARGV[5]) or nil}
end

function act.receive()
  move('', what)
  return {'done'}
end

act['take-back'] = function()
  if not standing[1] then return act.refund() end
  if tonumber(ARGV[5]) > available then return {'sold-out', available} end
  move('-', 'refund')
  forget_shortage(ARGV[4])
  return {'done'}
end

return act[what]()
