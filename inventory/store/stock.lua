-- An item's stock, and the only code that moves its units. It stands in front of every script that does.
--
-- An item is one hash:
--   terms                  INITIAL LIMIT STARTS ENDS HOLD STRATEGY, which never change (times in ms; 0: none)
--   available, held, sold  where its units are
--   restocked              units that came in later, less those that left
--   returned               units of orders that have ended
--   shortage               units that putback.lua noted as lost
--   DIGEST                 an order's record, see record.h; a digest has 22 characters, and no other name has
--   @USER                  units of the user, if the item has a limit
--   +DIGEST                what a restock or a transfer did
-- Beside it, under the same hash tag: `holds` (sorted set: digest by expiry) and `due` (sorted set: item by expiry of its first hold, for all
-- items of the part).
--
-- Conservation: INITIAL + restocked = available + held + sold. move() keeps it, save() writes it.
local call = redis.call

-- This server's clock (ms).
local function clock()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Items of one call often have the same terms, so each text is parsed once.
local parsed = {}
local function terms_of(text)
  if not parsed[text] then
    local initial, limit, starts, ends, hold, strategy = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
    parsed[text] = {initial = tonumber(initial), limit = tonumber(limit), starts = tonumber(starts), ends = tonumber(ends),
      hold = tonumber(hold), strategy = strategy}
  end
  return parsed[text]
end

-- Reads the item and further fields: the item, and the reply, which has those fields from 5 on. nil: there is no such item.
local function read(key, ...)
  local c = call('HMGET', key, 'terms', 'available', 'held', 'sold', ...)
  if not c[1] then return nil, c end
  return {key = key, terms = terms_of(c[1]), available = tonumber(c[2]), held = c[3], sold = c[4], outside = 0}, c
end

-- Why the units cannot be sold to a user who has `had` (read only if there is a limit); nil: they can. Of several reasons all scripts name the same one.
local function refusal(item, now, units, had)
  local terms = item.terms
  if terms.starts > 0 and now < terms.starts then return 'not-started' end
  if terms.ends > 0 and now >= terms.ends then return 'ended' end
  if units > item.available then return 'sold-out' end
  if terms.limit > 0 and had + units > terms.limit then return 'limit' end
end

-- Moves units from one place to another: 'available', 'held', 'sold', or 'outside' (a restock, a transfer).
local function move(item, units, from, to)
  item[from] = item[from] - units
  item[to] = item[to] + units
end

-- Writes where the units are, and the fields of `new` {field, value, ...}. The first `told` of these are orders, for the event stream. This is
-- the first write of every script, and Redis refuses it when out of memory or read-only. So a script is carried out whole or not at all.
local function save(item, new, told)
  call('HSET', item.key, 'available', item.available, 'held', item.held, 'sold', item.sold, unpack(new))
  if item.outside ~= 0 then call('HINCRBY', item.key, 'restocked', -item.outside) end
  if item.events and told > 0 then call('XADD', item.events, '*', unpack(new, 1, told)) end
end

-- Adds to a field of the item that is no place of units.
local function add(item, field, n)
  if n ~= 0 then call('HINCRBY', item.key, field, n) end
end

-- Enters holds {expiry, digest, ...}, none of which ends before the first, and the item in the index of due times.
local function hold(item, holds)
  call('ZADD', item.holds, unpack(holds))
  call('ZADD', item.due, 'LT', holds[1], item.key)
end

-- The order's record in its next state.
local function next_record(record, state)
  local version, rest = string.match(record, '^%a(%d*)(.*)')
  return state .. (tonumber(version) or 1) + 1 .. rest
end

