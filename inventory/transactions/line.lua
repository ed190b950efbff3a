-- What a transaction (a basket or a transfer) does to one of its items. Each call is idempotent.
--
-- KEYS: item, token, shortage[, events] (see stock.lua, fenced.lua, putback.lua).
-- ARGV: what, token ('': none is checked, see fenced.lua), then
--   read | read-fenced: user, names of fields. Replies {'read', the item's fields, the user's units}. After `read-fenced` older tokens are refused.
--   debit: now, user, n digests, n records. Makes the lines orders, held by their basket or sold, as their records say.
--     Replies {'done'}, {'aborted'}: the transaction was aborted before, {'sold-out', available}, {'limit', units the user may still have},
--     {'not-started'} or {'ended'}.
--   settle: state, user, n digests, n records. Ends the orders that `debit` wrote: c confirmed, x cancelled, e expired, u aborted.
--     An order that is missing is written as these records say. With u: so that a late `debit` finds it. With the others: a failover lost it, and c
--     takes its units anew. c also takes the units of an order that has ended, if it is noted as lost. An order that was aborted because the
--     decision was lost has given its units back, and ends as x or e.
--     Replies {'done'}; {'done', units that u refunded}; {'short'}: c cannot take the units, and their loss is noted (see putback.lua); or
--     {'otherwise', record}: another decision has ended the order.
--   disown: as settle with u, but also ends confirmed orders. Cancelled and expired orders have no units.
--   send | refund | receive: digest, quantity, transfer. Units of a transfer leave this item, come back to it, or arrive. Replies {'done'},
--     {'done', units that came back}, {'aborted'} or {'sold-out', available}.
--   take-back: digest, quantity, transfer. Undoes receive, if that was done; then `refund` is right at the sender. Replies {'done'} or
--     {'sold-out', available}: the units are sold by now, and nothing is undone.
-- Removes the shortage notes of what it undoes (see putback.lua).
-- Every call may also reply {'stale'} or {'unknown-item'}.
local key, newest_token, shortage, events = unpack(KEYS)
local what, token = ARGV[1], ARGV[2]
local is_read = what == 'read' or what == 'read-fenced'
local is_order = what == 'debit' or what == 'settle' or what == 'disown'

local digests, records, n = {}, {}, is_order and (#ARGV - 4) / 2 or 0
for i = 1, n do
  digests[i], records[i] = ARGV[4 + i], ARGV[4 + n + i]
end
local user = is_read and ARGV[3] or is_order and ARGV[4] or ''
local item, terms = read(key, '@' .. user, unpack(is_order and digests or {'+' .. ARGV[3]})) -- or the record of a transfer
if not item then return {'unknown-item'} end
local had, limit = tonumber(item[5] or 0), terms.limit

local function standing(i) return item[5 + i] end
local function letter(i) return standing(i) and string.sub(standing(i), 1, 1) end

-- A call that was carried out before needs no token, since it writes nothing.
local word = not is_order and not is_read and string.match(standing(1) or '', '^%a+')
if is_order then
  local settled = true
  for i = 1, n do
    if what == 'debit' and letter(i) == 'u' then return {'aborted'} end
    settled = settled and standing(i) and (what == 'debit' or letter(i) == ARGV[3])
  end
  if settled then return {'done'} end
elseif word == what then
  return {'done'}
elseif word == 'refund' then
  return {what == 'take-back' and 'done' or 'aborted'}
end

if token ~= '' then
  local newest = call('GET', newest_token)
  if newest and token < newest then return {'stale'} end
  if newest ~= token and what ~= 'read' then call('SET', newest_token, token) end
end

-- Moves units, and writes the orders as they are now. The user has so many units `more`.
local function write(units, from, to, more)
  local new = {}
  for i = 1, n do new[2 * i - 1], new[2 * i] = digests[i], records[i] end
  if limit > 0 and more ~= 0 then new[2 * n + 1], new[2 * n + 2] = '@' .. user, had + more end
  move(key, item, units, from, to, unpack(new))
  tell(events, unpack(new, 1, 2 * n))
end

local function transfer(units, done)
  bring(key, item, units, 'transfer', ARGV[3], table.concat({done, ARGV[4], ARGV[5]}, ' '), events)
end

local function forget_shortage(digest)
  local note = call('HGET', shortage, digest)
  if note then
    call('HDEL', shortage, digest)
    add(key, 'shortage', 0 - string.match(note, ' (%d+)'))
  end
end

local function quantity_of(record) return tonumber(string.match(record, ' (%d+)')) end

local act = {}

function act.read()
  return {'read', call('HMGET', key, unpack(ARGV, 4)), item[5]}
end

act['read-fenced'] = act.read

function act.debit()
  local quantity = 0
  for i = 1, n do -- one of two lines may have been put back after a failover
    if standing(i) then
      records[i] = standing(i)
    else
      quantity = quantity + quantity_of(records[i])
    end
  end
  local reason = refusal(terms, tonumber(ARGV[3]), item[AVAILABLE], quantity, had)
  if reason == 'sold-out' then return {reason, item[AVAILABLE]} end
  if reason == 'limit' then return {reason, limit - had} end
  if reason then return {reason} end
  write(quantity, 'available', string.sub(records[1], 1, 1) == 'c' and 'sold' or 'held', quantity)
  return {'done'}
end

function act.settle()
  local state, held, sold, lacking, expired, noted, ended = ARGV[3], 0, 0, 0, 0, true, what == 'disown'
  for i = 1, n do
    local was, quantity = letter(i), quantity_of(records[i])
    local is_noted = state == 'c' and was ~= 'b' and was ~= 'c' and call('HEXISTS', shortage, digests[i]) == 1
    local is_lost = was and is_noted -- the loss of its confirmation, before another process ended or aborted it
    local is_aborted = was == 'u' and (state == 'x' or state == 'e')
    ended = ended or is_aborted
    if not was then
      records[i] = state .. string.sub(records[i], 2)
    elseif was == 'b' or is_lost or is_aborted or what == 'disown' and was ~= 'u' then
      records[i] = next_record(standing(i), state)
    elseif was == state then
      records[i] = standing(i)
    else
      return {'otherwise', standing(i)}
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
  local confirms = state == 'c'
  if confirms and lacking > 0 and (lacking > item[AVAILABLE] or limit > 0 and had + lacking > limit) then
    return noted and {'short'} or {'otherwise', ''}
  end
  write(held, 'held', confirms and 'sold' or 'available', confirms and lacking or 0 - held - sold)
  if sold > 0 then move(key, item, sold, 'sold', 'available') end
  if confirms and lacking > 0 then move(key, item, lacking, 'available', 'sold') end
  add(key, 'released', confirms and 0 - expired or held + sold + lacking)
  for i = 1, (lacking > 0 or ended) and n or 0 do
    forget_shortage(digests[i])
  end
  return {'done', state == 'u' and held + sold > 0 and held + sold or nil}
end

act.disown = act.settle

function act.send()
  local quantity = tonumber(ARGV[4])
  if quantity > item[AVAILABLE] then return {'sold-out', item[AVAILABLE]} end
  transfer(-quantity, what)
  return {'done'}
end

function act.refund()
  local quantity = word and tonumber(ARGV[4]) or 0
  if word then transfer(quantity, 'refund') else call('HSET', key, '+' .. ARGV[3], 'refund 0') end
  forget_shortage(ARGV[3])
  return {'done', quantity > 0 and quantity or nil}
end

function act.receive()
  transfer(tonumber(ARGV[4]), what)
  return {'done'}
end

act['take-back'] = function()
  if not word then return act.refund() end
  local quantity = tonumber(ARGV[4])
  if quantity > item[AVAILABLE] then return {'sold-out', item[AVAILABLE]} end
  transfer(-quantity, 'refund')
  forget_shortage(ARGV[3])
  return {'done'}
end

return act[what]()
