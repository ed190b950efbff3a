-- What becomes of orders: they are paid, confirmed, cancelled, returned, or expire. Also reads one order, since a due hold expires when it is read.
--
-- KEYS: item, holds, due[, events] (see stock.lua). ARGV: what, then
--   get | confirm | cancel | pay | return: digest, when the request arrived ('': now), whose order it must be ('': anybody's; the shop calls), then
--       confirm: the payment's reference ('': none); pay: the payment's reference, for how long (ms; '': as long as the item allows);
--       return: digest of the key, quantity, whether the units are for sale again (1 | 0: they leave the stock).
--     Replies {the record after the step, 1 done | 0 not: it was done before, or the record tells why it cannot be}, or {record, 0, why} if
--     something else forbids it: 'too-long', 'over-return' or 'key-reused'. Or false: there is no such order.
--     A request that arrived in time is not too late unless the hold was settled before. So a hold expires by itself only half a second after it
--     was due.
--   sweep: how many holds at most, when the sweep began. Expires the holds that were due when the sweep began, since this call may have stood still
--     together with requests that arrived in time. Then the item stands in the index of due times by its next hold. Replies {how many holds it
--     handled, whether the item's place in the index has changed (0 | 1)}.
--   over: the same for holds that are due now, or were due by that time, which is of another server's clock.
-- Times (ms) are by this server's clock. Each step is idempotent, and of two that exclude each other the first one wins.
local key, holds, due, events = unpack(KEYS)
local what = ARGV[1]

local PLACE = {h = 'held', p = 'held', c = 'sold', x = 'available', e = 'available'}

-- Brings the order into this state, and its units to their place. Returns its record.
local function change(item, terms, digest, order, state, now)
  local from, to, quantity = PLACE[order.state], PLACE[state], order.quantity
  if from ~= to then order.s = string.format('%.0f', now) end
  order.state, order.version = state, order.version + 1
  local record = record_of(order)
  if from == to then call('HSET', key, digest, record) else move(key, item, quantity, from, to, digest, record) end
  tell(events, digest, record)
  if state == 'p' then
    hold(key, holds, due, {order.expires, digest})
  elseif from == 'held' then
    call('ZREM', holds, digest)
  end
  if from == to then return record end
  if to == 'available' then add(key, 'released', quantity) end
  local more = to == 'available' and -quantity or from == 'available' and quantity or 0
  if terms.limit > 0 then add(key, '@' .. order.user, more) end
  return record
end

if what == 'sweep' or what == 'over' then
  local item, terms = read(key)
  local now = clock()
  local over = (what == 'sweep' and math.min or math.max)(now, tonumber(ARGV[3]))
  local ended = item and call('ZRANGEBYSCORE', holds, '-inf', over - HOLD_GRACE_MS, 'LIMIT', 0, ARGV[2]) or {}
  for _, digest in ipairs(ended) do
    local record = call('HGET', key, digest)
    local order = record and parse(record)
    if order and PLACE[order.state] == 'held' then
      change(item, terms, digest, order, 'e', now)
    else
      call('ZREM', holds, digest) -- the entry has no hold: an interrupted `decr` may leave one
    end
  end
  local next = item and call('ZRANGE', holds, 0, 0, 'WITHSCORES')[2]
  if next and next ~= 'inf' then -- the entry '' of create.lua
    return {#ended, call('ZADD', due, 'CH', next, key)}
  end
  return {#ended, call('ZREM', due, key)}
end

-- ---- one step of one order ----

local digest, arrived, owner, first, second, third = unpack(ARGV, 2)
local item, terms = read(key, digest)
local record = item and item[5]
local order = record and parse(record)
if record and not order then return {record, 0} end -- somebody else wrote it
if not record or owner ~= '' and order.user ~= owner then return false end
local now = clock()
local step = {}

function step.get() end

-- The units of an order that has expired are taken again, if they are there. Neither a pause nor the end of the sale forbids that.
local function fits()
  local had = terms.limit > 0 and tonumber(call('HGET', key, '@' .. order.user) or 0)
  return not refusal({limit = terms.limit}, now, item[AVAILABLE], order.quantity, had)
end

function step.confirm()
  local state, differs = order.state, first ~= '' and order.p and order.p ~= first
  if not PLACE[state] or state == 'c' or order.d or differs then return end
  if first ~= '' then order.p = first end
  if PLACE[state] == 'held' then return 'c' end
  if state == 'e' and fits() then
    order.l = '1'
    return 'c'
  end
  order.d = '1'
  return state
end

-- A buyer does not cancel what is being paid.
function step.cancel()
  if order.state == 'h' or order.state == 'p' and owner == '' then return 'x' end
end

function step.pay()
  if order.state ~= 'h' then return end
  local ms = second == '' and terms.pay or second
  if tonumber(ms) > tonumber(terms.pay) then return nil, 'too-long' end
  order.p = first
  order.expires = string.format('%.0f', math.max(order.expires, now + ms))
  return 'p'
end

step['return'] = function()
  local note = table.concat({'return', second, third, digest}, ' ')
  local noted = call('HGET', key, '+' .. first)
  if noted then return nil, noted ~= note and 'key-reused' or nil end
  local changed = take_back(key, item, terms, order, first, note, events)
  return nil, not changed and 'over-return' or nil, changed
end

local over = what == 'get' and now - HOLD_GRACE_MS or math.min(now, tonumber(arrived) or now)
if PLACE[order.state] == 'held' and tonumber(order.expires) <= over then record = change(item, terms, digest, order, 'e', now) end
if order.basket and what ~= 'get' then return {record, 0} end -- it is settled with its basket
local state, why, changed = step[what]()
if state then changed = change(item, terms, digest, order, state, now) end
return {changed or record, changed and 1 or 0, why}
