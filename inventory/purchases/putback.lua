-- Puts back something that was acknowledged, and that a failover of the store lost since a replica without it was promoted.
--
-- KEYS: item, holds, due, shortage[, events] (see stock.lua; shortage: hash: digest -> record of what does not fit any more).
--   For `journal`: journal, open (see journal.lua).
-- ARGV: what, name, the record that was acknowledged last, and whether this is the last time: `no`: what does not fit is not noted yet; `yes`: it
--   is noted; `decided`: as yes, and the journal has decided so, although another process may have taken the decision for lost and undone it.
--   order: digest, record (see record.h). A hold that is over takes no units: it is put back as expired. A basket's hold that is over is not put
--     back: the basket's next step writes it.
--   move: digest, `QUANTITY STOCK AVAILABLE` of a restock, or `send | refund | receive QUANTITY TRANSFER` (see line.lua).
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

local function place_of(letter)
  return (letter == 'h' or letter == 'b') and 'held' or letter == 'c' and 'sold' or 'available'
end
local function is_returned(letter) return letter == 'x' or letter == 'e' or letter == 'u' end

local function order()
  local state, version, rest = string.match(record, '^(%a)(%d*)( .*)')
  local quantity, user, due = string.match(rest, '^ (%d+) (%S+) %d+ ?(%d*)')
  local item, terms = read(key, '@' .. user, name)
  if not item then return 'unknown-item' end
  local was, has, held = string.match(item[6] or '', '^(%a)(%d*) (%d+)')
  version, has, held = tonumber(version) or 1, was and (tonumber(has) or 1) or 0, held or 0
  if decided then
    if was == state or state == 'b' and was and was ~= 'u' then return resolve('there') end
    version = math.max(version, has + 1)
  end
  if was == 'u' and not decided then return 'there' end -- its basket was undone, and the journal tells whether that was right
  if was and held ~= quantity and not decided then return 'differs' end -- the key was used again while its order was lost
  if has > version or was == state then return resolve('there') end
  if (state == 'h' or state == 'b' and not decided) and due ~= '0' and tonumber(due) <= clock() - HOLD_GRACE_MS then
    if was or state == 'b' then return resolve('there') end
    state = 'e' -- with the same version, so that a confirm or cancel in time is newer
  end
  if has == version then
    if was ~= 'e' or state ~= 'c' and state ~= 'x' then return 'differs' end
    version = version + 1 -- it was confirmed or cancelled in time, and then taken for expired
  end

  -- Takes the units from where they are, and puts them where they belong.
  local from, to = place_of(was), place_of(state)
  local takes = (to == 'available' and 0 or quantity) - (from == 'available' and 0 or held)
  local limit, had = terms.limit, item[5] or 0
  if takes > 0 and (takes > item[AVAILABLE] or limit > 0 and had + takes > limit) then return unfit() end
  local new = {name, state .. (version > 1 and version or '') .. rest}
  if limit > 0 and takes ~= 0 then new[3], new[4] = '@' .. user, had + takes end
  move(key, item, held, from, 'available', unpack(new))
  move(key, item, quantity, 'available', to)
  tell(events, new[1], new[2])
  add(key, 'returned', (is_returned(state) and quantity or 0) - (is_returned(was) and held or 0))
  if state == 'h' then
    hold(key, holds, due_index, {due, name})
  else
    call('ZREM', holds, name)
  end
  return resolve('back')
end

if what == 'journal' then return put_back_journal() end
return what == 'move' and restock_or_transfer() or order()
