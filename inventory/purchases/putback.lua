-- Puts back what was acknowledged, and what a failover of the store lost: a replica was promoted that had not got it yet.
--
-- KEYS: item, orders, users, holds, events, shortage (hash: digest -> record of what does not fit any more), restocks; one hash tag, so one slot.
--   Of `journal`: journal, open (see journal.lua).
-- ARGV: what, name, record as it was acknowledged last, whether this is the last time (yes | no: what does not fit is not noted yet | decided: yes,
--   and the journal says so: another process may have undone it, which took a lost decision for none), whether the event stream is written (on | off).
--   order: digest, record (see record.h). A hold that is over takes no units: it is put back as expired. One of a basket is
--     not put back: the basket's next step writes it.
--   move: digest, `QUANTITY STOCK AVAILABLE` of a restock, or `send | refund | receive QUANTITY TRANSFER` (see line.lua).
--   journal: transaction, the time from which others may finish it (0: it is finished), a blank, and its record (see journal.h).
-- Replies 'there': it stands, or something newer does, or nobody was told of it. 'back': it does now. 'short': its units were sold again since,
--   or its user has others by now; the last time this is noted. 'noted', instead of that: decided, and it was noted before. 'differs': something
--   else was acknowledged since, as another quantity, or the journal has another attempt. 'unknown-item': the item is gone too.
-- What was noted, and stands or fits now, is not noted any more. The first write is one that Redis refuses when out of memory, so a call is
-- carried out whole or not at all.
local what, name, record, last, streams = unpack(ARGV)
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
  local standing = redis.call('HGET', key, name)
  if standing then
    local was, of = string.match(standing, '^(%S+) (%S+)')
    local old, new = phases[was], phases[phase]
    local other, undone = parted(old[3], new[3]), parted(old[2], new[2])
    -- Who expires a basket tells nobody: it was confirmed or cancelled before that.
    if of ~= nonce or other and old[3] ~= 'e' then return 'differs' end
    if undone and new[2] == 'undo' or old[1] >= new[1] and not other and not undone then return 'there' end
  end
  redis.call('HSET', key, name, text)
  if due ~= '0' then
    redis.call('ZADD', open, due, name)
  else
    redis.call('ZREM', open, name)
  end
  return new[2] == 'on' and 'back' or 'there' -- of the others nobody was told
end

local item, orders, users, holds, events, shortage, restocks = unpack(KEYS)

local function quantity_of(text) return string.match(text, '^%a+%d* (%d+)') or string.match(text, '^(%d+)') end

-- It stands by now.
local function resolve(word)
  local noted = redis.call('HGET', shortage, name)
  if noted then
    redis.call('HDEL', shortage, name)
    redis.call('HINCRBY', item, 'shortage', -quantity_of(noted))
  end
  return word
end

local function unfit()
  local new = last ~= 'no' and redis.call('HSETNX', shortage, name, record) == 1
  if new then redis.call('HINCRBY', item, 'shortage', quantity_of(record)) end
  return decided and not new and 'noted' or 'short'
end

local function move(available)
  local standing = redis.call('HGET', restocks, name)
  local was, word = string.match(standing or '', '^%a+'), string.match(record, '^%a+')
  local quantity, sign = quantity_of(record), ''
  if standing and (was == word or was == 'refund' and not decided) then return resolve('there') end
  if word == 'refund' and not was then
    redis.call('HSET', restocks, name, 'refund 0')
    return 'back'
  end
  if word == 'send' or was == 'receive' then -- what arrived is taken back
    if tonumber(quantity) > available then return unfit() end
    sign = '-'
  end
  redis.call('HSET', restocks, name, record)
  if streams == 'on' then redis.call('XADD', events, '*', word and 'transfer' or 'restock', word and sign .. quantity or quantity) end
  redis.call('HINCRBY', item, 'available', sign .. quantity)
  redis.call('HINCRBY', item, 'restocked', sign .. quantity)
  return resolve('back')
end

local function home(letter)
  return (letter == 'h' or letter == 'b') and 'held' or letter == 'c' and 'sold' or 'available'
end
local function is_returned(letter) return letter == 'x' or letter == 'e' or letter == 'u' end

local function is_over(due)
  local time = redis.call('TIME')
  return due ~= '0' and tonumber(due) <= time[1] * 1000 + math.floor(time[2] / 1000) - GRACE
end

local function order(available, limit)
  local state, version, rest = string.match(record, '^(%a)(%d*)( .*)')
  local quantity, user, due = string.match(rest, '^ (%d+) (%S+) %d+ ?(%d*)')
  local was, has, held = string.match(redis.call('HGET', orders, name) or '', '^(%a)(%d*) (%d+)')
  version, has, held = tonumber(version) or 1, was and (tonumber(has) or 1) or 0, held or 0
  if decided then
    if was == state or state == 'b' and was and was ~= 'u' then return resolve('there') end
    version = math.max(version, has + 1)
  end
  if was == 'u' and not decided then return 'there' end -- its basket was undone: the journal tells whether rightly
  if was and held ~= quantity and not decided then return 'differs' end -- the key was used again when nobody knew it
  if has > version or was == state then return resolve('there') end
  if (state == 'h' or state == 'b' and not decided) and is_over(due) then
    if was or state == 'b' then return resolve('there') end
    state = 'e' -- with its version: what became of it in time is newer
  end
  if has == version then
    if was ~= 'e' or state ~= 'c' and state ~= 'x' then return 'differs' end
    version = version + 1 -- it was confirmed or cancelled before it was taken for expired
  end

  local from, to = home(was), home(state)
  local takes = (to == 'available' and 0 or quantity) - (from == 'available' and 0 or held)
  if takes > 0 and (takes > available or limit > 0 and takes + (redis.call('HGET', users, user) or 0) > limit) then return unfit() end
  local text = state .. (version > 1 and version or '') .. rest
  redis.call('HSET', orders, name, text)
  if streams == 'on' then redis.call('XADD', events, '*', name, text) end
  if takes ~= 0 then redis.call('HINCRBY', item, 'available', -takes) end
  if from ~= 'available' then redis.call('HINCRBY', item, from, -held) end
  if to ~= 'available' then redis.call('HINCRBY', item, to, quantity) end
  if is_returned(was) then redis.call('HINCRBY', item, 'returned', -held) end
  if is_returned(state) then redis.call('HINCRBY', item, 'returned', quantity) end
  if limit > 0 and takes ~= 0 then redis.call('HINCRBY', users, user, takes) end
  if state == 'h' then
    redis.call('ZADD', holds, due, name)
  else
    redis.call('ZREM', holds, name)
  end
  return resolve('back')
end

if what == 'journal' then return journal() end
local c = redis.call('HMGET', item, 'available', 'limit')
if not c[1] then return 'unknown-item' end
if what == 'move' then return move(tonumber(c[1])) end
return order(tonumber(c[1]), tonumber(c[2]))
