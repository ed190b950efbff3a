-- Puts back what was acknowledged, and what a failover of the store lost: a replica was promoted that had not got it yet.
--
-- KEYS: item, holds, due, shortage[, events] (see stock.lua; shortage: hash: digest -> record of what does not fit any more).
--   Of `journal`: journal, open (see journal.lua).
-- ARGV: what, name, record as it was acknowledged last, whether this is the last time (yes | no: what does not fit is not noted yet | decided: yes,
--   and the journal says so: another process may have undone it, which took a lost decision for none).
--   order: digest, record (see record.h). A hold that is over takes no units: it is put back as expired. One of a basket is
--     not put back: the basket's next step writes it.
--   move: digest, `QUANTITY STOCK AVAILABLE` of a restock, or `send | refund | receive QUANTITY TRANSFER` (see line.lua).
--   journal: transaction, the time from which others may finish it (0: it is finished), a blank, and its record (see journal.h).
-- Replies 'there': it stands, or something newer does, or nobody was told of it. 'back': it does now. 'short': its units were sold again since,
--   or its user has others by now; the last time this is noted. 'noted', instead of that: decided, and it was noted before. 'differs': something
--   else was acknowledged since, as another quantity, or the journal has another attempt. 'unknown-item': the item is gone too.
-- What was noted, and stands or fits now, is not noted any more.
local what, name, record, last = unpack(ARGV)
local decided = last == 'decided'
local GRACE = 500 -- as INVENTORY_HOLD_GRACE_MS

-- Of the journal: how far a phase is, and which way. Two ways meet only if a decision was lost: then it stands, and who undid it was wrong.
local phases = {intent = {1}, held = {2, 'on'}, undoing = {3, 'undo'}, confirming = {3, 'on', 'c'}, cancelling = {3, 'on', 'x'},
  expiring = {3, 'on', 'e'}, confirmed = {4, 'on', 'c'}, cancelled = {4, 'on', 'x'}, expired = {4, 'on', 'e'}}

local function parted(a, b) return a and b and a ~= b end

local function journal()
  local key, open = unpack(KEYS)
  local due, text = string.match(record, '^(%d+) (.*)')
  local phase, nonce = string.match(text, '^(%S+) (%S+)')
  local standing = call('HGET', key, name)
  if standing then
    local was, of = string.match(standing, '^(%S+) (%S+)')
    local old, new = phases[was], phases[phase]
    local other, undone = parted(old[3], new[3]), parted(old[2], new[2])
    -- Who expires a basket tells nobody: it was confirmed or cancelled before that.
    if of ~= nonce or other and old[3] ~= 'e' then return 'differs' end
    if undone and new[2] == 'undo' or old[1] >= new[1] and not other and not undone then return 'there' end
  end
  call('HSET', key, name, text)
  if due ~= '0' then
    call('ZADD', open, due, name)
  else
    call('ZREM', open, name)
  end
  return new[2] == 'on' and 'back' or 'there' -- of the others nobody was told
end

local holds, due_index, shortage, events = KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function quantity_of(text) return tonumber(string.match(text, '^%a+%d* (%d+)') or string.match(text, '^(%d+)')) end

-- It stands by now.
local function resolve(item, word)
  local noted = call('HGET', shortage, name)
  if noted then
    call('HDEL', shortage, name)
    add(item, 'shortage', -quantity_of(noted))
  end
  return word
end

local function unfit(item)
  local new = last ~= 'no' and call('HSETNX', shortage, name, record) == 1
  if new then add(item, 'shortage', quantity_of(record)) end
  return decided and not new and 'noted' or 'short'
end

local function restock_or_transfer()
  local field = '+' .. name
  local item, c = read(KEYS[1], field)
  if not item then return 'unknown-item' end
  local was, word = string.match(c[5] or '', '^%a+'), string.match(record, '^%a+')
  local units = quantity_of(record)
  if c[5] and (was == word or was == 'refund' and not decided) then return resolve(item, 'there') end
  if word == 'refund' and not was then
    call('HSET', item.key, field, 'refund 0')
    return 'back'
  end
  if word == 'send' or was == 'receive' then -- what arrived is taken back
    if units > item.available then return unfit(item) end
    units = -units
  end
  move(item, units, 'outside', 'available')
  save(item, {field, record}, 0)
  if events then call('XADD', events, '*', word and 'transfer' or 'restock', string.format('%.0f', units)) end
  return resolve(item, 'back')
end

local function place_of(letter)
  return (letter == 'h' or letter == 'b') and 'held' or letter == 'c' and 'sold' or 'available'
end
local function is_returned(letter) return letter == 'x' or letter == 'e' or letter == 'u' end

local function order()
  local state, version, rest = string.match(record, '^(%a)(%d*)( .*)')
  local quantity, user, due = string.match(rest, '^ (%d+) (%S+) %d+ ?(%d*)')
  local item, c = read(KEYS[1], '@' .. user, name)
  if not item then return 'unknown-item' end
  local was, has, held = string.match(c[6] or '', '^(%a)(%d*) (%d+)')
  version, has, held = tonumber(version) or 1, was and (tonumber(has) or 1) or 0, held or 0
  if decided then
    if was == state or state == 'b' and was and was ~= 'u' then return resolve(item, 'there') end
    version = math.max(version, has + 1)
  end
  if was == 'u' and not decided then return 'there' end -- its basket was undone: the journal tells whether rightly
  if was and held ~= quantity and not decided then return 'differs' end -- the key was used again when nobody knew it
  if has > version or was == state then return resolve(item, 'there') end
  if (state == 'h' or state == 'b' and not decided) and due ~= '0' and tonumber(due) <= clock() - GRACE then
    if was or state == 'b' then return resolve(item, 'there') end
    state = 'e' -- with its version: what became of it in time is newer
  end
  if has == version then
    if was ~= 'e' or state ~= 'c' and state ~= 'x' then return 'differs' end
    version = version + 1 -- it was confirmed or cancelled before it was taken for expired
  end

  -- What it holds is taken from where that is, and put where it belongs.
  local from, to = place_of(was), place_of(state)
  local takes = (to == 'available' and 0 or quantity) - (from == 'available' and 0 or held)
  local limit, had = item.terms.limit, c[5] or 0
  if takes > 0 and (takes > item.available or limit > 0 and had + takes > limit) then return unfit(item) end
  item.events = events
  if was then move(item, held, from, 'available') end
  move(item, quantity, 'available', to)
  local new = {name, state .. (version > 1 and version or '') .. rest}
  if limit > 0 and takes ~= 0 then new[3], new[4] = '@' .. user, had + takes end
  save(item, new, 2)
  add(item, 'returned', (is_returned(state) and quantity or 0) - (is_returned(was) and held or 0))
  if state == 'h' then
    item.holds, item.due = holds, due_index
    hold(item, {due, name})
  else
    call('ZREM', holds, name)
  end
  return resolve(item, 'back')
end

if what == 'journal' then return journal() end
return what == 'move' and restock_or_transfer() or order()
