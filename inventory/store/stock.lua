-- An item's stock, and the only code that moves its units. The build puts it in front of every script that does.
--
-- An item is one hash:
--   terms                  INITIAL LIMIT STARTS ENDS HOLD PAY STRATEGY, which never change (times in ms; 0: none)
--   available, held, sold  where its units are
--   restocked              units that came in after the creation, less those that left
--   released               units that orders gave back before they were confirmed: cancelled, expired or aborted. A late confirm, which takes
--                          them again, leaves this as it is
--   returned               units that were returned after they were confirmed
--   shortage               units that putback.lua noted as lost
--   DIGEST                 an order's record, see record.h; a digest has 22 characters, and no other name has
--   @USER                  units of the user, if the item has a limit
--   +DIGEST                what a restock, a transfer or a return did
-- Beside it, under the same hash tag: `holds` (sorted set: digest by expiry) and `due` (sorted set: item by expiry of its first hold, for all
-- items of the part).
--
-- Conservation: INITIAL + restocked = available + held + sold. Only move() and bring() change these.
local call = redis.call
local HOLD_GRACE_MS = 500 -- a hold lives so long after it is due: INVENTORY_HOLD_GRACE_MS

-- This server's clock (ms).
local function clock()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Where an item that was read has its units. Further fields follow from 5 on.
local AVAILABLE = 2
local PLACES = {available = AVAILABLE, held = 3, sold = 4}

-- Reads the item and further fields. Returns the item and its terms; nil: there is no such item. `starts` and `ends` are false if
-- there are none.
local parsed = {} -- items of one call often have the same terms
local function read(key, ...)
  local item = call('HMGET', key, 'terms', 'available', 'held', 'sold', ...)
  local text = item[1]
  if not text then return nil end
  item[AVAILABLE] = tonumber(item[AVAILABLE])
  local terms = parsed[text]
  if not terms then
    local initial, limit, starts, ends, hold, pay, strategy = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
    terms = {initial = initial, limit = tonumber(limit), starts = starts ~= '0' and tonumber(starts), ends = ends ~= '0' and tonumber(ends),
      hold = tonumber(hold), pay = pay, strategy = strategy}
    parsed[text] = terms
  end
  return item, terms
end

-- Why `units` of the units `left` cannot be sold to a user who has `had` units (used only if there is a limit); nil: they can. All scripts ask here,
-- so of several reasons they name the same one.
local function refusal(terms, now, left, units, had)
  if terms.starts and now < terms.starts then return 'not-started' end
  if terms.ends and now >= terms.ends then return 'ended' end
  if units > left then return 'sold-out' end
  if terms.limit > 0 and had + units > terms.limit then return 'limit' end
end

-- Moves units from one place (`available`, `held` or `sold`) to another, and writes that together with further fields and values in one command.
-- Redis may refuse this write (out of memory, read-only). Then nothing of the item is written. Commands that follow in the same script are not
-- refused for these reasons. They fail only if somebody else wrote into the item's keys; then the audit names what is missing.
local function move(key, item, units, from, to, ...)
  local source, target = PLACES[from], PLACES[to]
  item[source] = item[source] - units
  item[target] = item[target] + units
  call('HSET', key, from, item[source], to, item[target], ...)
end

-- Appends to the event stream, if there is one.
local function tell(events, ...)
  if events then call('XADD', events, '*', ...) end
end

-- Adds to a field of the item that is not a place of units.
local function add(key, field, n)
  if n ~= 0 then call('HINCRBY', key, field, n) end
end

-- Brings units into the item, or takes them out if `units` is negative. Writes the record of that, and `word` to the event stream.
local function bring(key, item, units, word, digest, record, events)
  item[AVAILABLE] = item[AVAILABLE] + units
  call('HSET', key, 'available', item[AVAILABLE], '+' .. digest, record)
  add(key, 'restocked', units)
  tell(events, word, string.format('%d', units))
end

-- Enters holds {expiry, digest, ...}, none of which ends before the first, and the item in the index of due times.
local function hold(key, holds, due, new)
  call('ZADD', holds, unpack(new))
  call('ZADD', due, 'LT', new[1], key)
end

-- The order's record in its next state.
local function next_record(record, state)
  local version, rest = string.match(record, '^%a(%d*)(.*)')
  return state .. (tonumber(version) or 1) + 1 .. rest
end

