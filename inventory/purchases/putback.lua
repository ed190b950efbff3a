-- Puts back something that was acknowledged, and that a failover of the store lost since a replica without it was promoted.
--
-- KEYS: item, holds, due, shortage[, events] (see stock.lua; shortage: hash: digest -> record of what does not fit any more).
--   For `journal`: journal, open (see journal.lua).
-- ARGV: what, name, the record that was acknowledged last, and whether this is the last time: `no`: what does not fit is not noted yet; `yes`: it
--   is noted; `decided`: as yes, and the journal has decided so, although another process may have taken the decision for lost and undone it.
--   order: digest, record (see record.h). A hold that is over takes no units: it is put back as expired. A basket's hold that is over is not put
--     back: the basket's next step writes it.
--   move: digest, `QUANTITY STOCK AVAILABLE` of a restock, `send | refund | receive QUANTITY TRANSFER` (see line.lua), or
--     `return QUANTITY RESTOCK ORDER` (see order.lua). Only that puts back what was returned; no record of an order that is shown tells of it.
--   journal: transaction, then as one text the time from which others may finish it (0: it is finished), a blank, and its record (see journal.c).
-- Replies
--   'there': the record stands, or something newer does, or nobody was told of the record.
--   'back': it was put back.
--   'short': its units were sold again since, or its user has others now. The last time this is noted as a shortage.
--   'noted', instead of that, if decided: the shortage was noted before.
--   'differs': something else was acknowledged since, such as another quantity; or the journal has another attempt.
--   'unknown-item': the item is gone, too.
-- A shortage note is removed once its record stands or fits.
local what, name, record, last = unpack(ARGV)
local decided = last == 'decided'

-- Of each phase of the journal: how far it is, and which way it goes. Two ways meet only if a decision was lost: the decision stands, and the
-- process that undid it was wrong.
local phases = {intent = {1}, held = {2, 'on'}, undoing = {3, 'undo'}, confirming = {3, 'on', 'c'}, cancelling = {3, 'on', 'x'},
  expiring = {3, 'on', 'e'}, confirmed = {4, 'on', 'c'}, cancelled = {4, 'on', 'x'}, expired = {4, 'on', 'e'}}

local function parted(a, b) return a and b and a ~= b end

local function put_back_journal()
  local journal, open = unpack(KEYS)
  local due, text = string.match(record, '^(%d+) (.*)')
  local phase, nonce = string.match(text, '^(%S+) (%S+)')
  local standing = call('HGET', journal, name)
  if standing then
    local was, of = string.match(standing, '^(%S+) (%S+)')
    local old, new = phases[was], phases[phase]
    local other, undone = parted(old[3], new[3]), parted(old[2], new[2])
    -- Nobody is told of an expiry, so a confirm or cancel came before it, and stands.
    if of ~= nonce or other and old[3] ~= 'e' then return 'differs' end
    if undone and new[2] == 'undo' or old[1] >= new[1] and not other and not undone then return 'there' end
  end
  call('HSET', journal, name, text)
  if due ~= '0' then
    call('ZADD', open, due, name)
  else
    call('ZREM', open, name)
  end
  return new[2] == 'on' and 'back' or 'there' -- nobody was told of the other phases
end

local key, holds, due_index, shortage, events = unpack(KEYS)

local function quantity_of(text) return tonumber(string.match(text, '^%a+%d* (%d+)') or string.match(text, '^(%d+)')) end

-- It stands now: removes its shortage note.
local function resolve(word)
  local noted = call('HGET', shortage, name)
  if noted then
    call('HDEL', shortage, name)
    add(key, 'shortage', -quantity_of(noted))
  end
  return word
end

local function unfit()
  local new = last ~= 'no' and call('HSETNX', shortage, name, record) == 1
  if new then add(key, 'shortage', quantity_of(record)) end
  return decided and not new and 'noted' or 'short'
end

-- The order may be put back later than what was returned of it.
local function put_back_return()
  local item, terms = read(key, '+' .. name, string.match(record, '%S+$'))
  if not item then return 'unknown-item' end
  if item[5] then return 'there' end
  local standing = item[6] and parse(item[6])
  if standing and take_back(key, item, terms, standing, name, record, events) then return 'back' end
  return last == 'no' and 'short' or 'differs'
end

local function restock_or_transfer()
  local item = read(key, '+' .. name)
  if not item then return 'unknown-item' end
  local was, word = string.match(item[5] or '', '^%a+'), string.match(record, '^%a+')
  local units = quantity_of(record)
  if item[5] and (was == word or was == 'refund' and not decided) then return resolve('there') end
  if word == 'refund' and not was then
    call('HSET', key, '+' .. name, 'refund 0')
    return 'back'
  end
  if word == 'send' or was == 'receive' then -- it had arrived, and is taken back
    if units > item[AVAILABLE] then return unfit() end
    units = -units
  end
  bring(key, item, units, word and 'transfer' or 'restock', name, record, events)
  return resolve('back')
end

local PLACE = {h = 'held', b = 'held', p = 'held', c = 'sold'}
local function place_of(order) return order and PLACE[order.state] or 'available' end

local function put_back_order()
  local order = parse(record)
  local user = '@' .. order.user
  local item, terms = read(key, user, name)
  if not item then return 'unknown-item' end
  local standing = item[6] and parse(item[6])
  local was, has, state = standing and standing.state, standing and standing.version or 0, order.state
  if decided then
    if was == state or state == 'b' and was and was ~= 'u' then return resolve('there') end
    order.version = math.max(order.version, has + 1)
  end
  if was == 'u' and not decided then return 'there' end -- its basket was undone, and the journal tells whether that was right
  if was and standing.quantity ~= order.quantity and not decided then return 'differs' end -- the key was used again while its order was lost
  local payments_differ = was and standing.p and order.p and standing.p ~= order.p
  -- Where money is concerned, two things that were acknowledged and exclude each other are told, whatever their versions.
  if was and standing.d and state == 'c' then return 'differs' end -- the refund was promised since
  if was == 'c' and (state == 'x' or state == 'e') and (order.d or order.p) and not decided then return 'differs' end
  if has > order.version then return resolve('there') end
  if was == state and not payments_differ and (standing.p == order.p or not order.p) and (has == order.version or not order.d) then
    return resolve('there')
  end
  if was == 'r' or was and standing.r or payments_differ then return 'differs' end
  local holds_itself = state == 'h' or state == 'p'
  if (holds_itself or state == 'b' and not decided) and order.expires ~= '0' and tonumber(order.expires) <= clock() - HOLD_GRACE_MS then
    if was or state == 'b' then return resolve('there') end
    state = 'e' -- with the same version, so that a confirm or cancel in time is newer
  end
  if has == order.version then
    local was_late = was == 'e' and (state == 'c' or state == 'x' or state == 'p') -- it was in time, and then taken for expired
    local goes_on = was == 'p' and (state == 'c' or state == 'x')
    if not was_late and not goes_on and was ~= state then return 'differs' end
    order.version = order.version + 1
  end
  order.state = state

  -- Takes the units from where they are, and puts them where they belong.
  local from, to = place_of(standing), place_of(order)
  local held = standing and standing.quantity or 0
  local takes = (to == 'available' and 0 or order.quantity) - (from == 'available' and 0 or held)
  local limit, had = terms.limit, item[5] or 0
  if takes > 0 and (takes > item[AVAILABLE] or limit > 0 and had + takes > limit) then return unfit() end
  local new = {name, record_of(order)}
  if limit > 0 and takes ~= 0 then new[3], new[4] = user, had + takes end
  move(key, item, held, from, 'available', unpack(new))
  move(key, item, order.quantity, 'available', to)
  tell(events, new[1], new[2])
  add(key, 'released', released_of(order) - (standing and released_of(standing) or 0))
  if to == 'held' and not order.basket then
    hold(key, holds, due_index, {order.expires, name})
  else
    call('ZREM', holds, name)
  end
  return resolve('back')
end

if what == 'journal' then return put_back_journal() end
if what == 'order' then return put_back_order() end
return string.match(record, '^return') and put_back_return() or restock_or_transfer()
