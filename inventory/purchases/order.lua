-- An order's record as a table, and the return of its units. The build puts it between stock.lua and the scripts that need it.

local TAGS = {'p', 's', 'l', 'r', 'd'}

-- Reads a record (see record.h). Returns {state, version, quantity, user, created, expires, basket} and its tags, by their letters; nil: it is none.
local function parse(record)
  local state, version, quantity, user, created, rest = string.match(record, '^(%a)(%d*) (%d+) (%S+) (%d+)(.*)$')
  if not state then return nil end
  local order = {state = state, version = tonumber(version) or 1, quantity = tonumber(quantity), user = user, created = created,
    expires = string.match(rest, '^ (%d+)'), basket = string.match(rest .. ' ', '^ %d+ ([%w_-]+) ')}
  for tag, value in string.gmatch(rest, ' (%l)=(%S+)') do order[tag] = value end
  return order
end

local function record_of(order)
  local words = {order.state .. (order.version > 1 and order.version or ''), order.quantity, order.user, order.created}
  words[#words + 1] = order.expires
  words[#words + 1] = order.basket
  for _, tag in ipairs(TAGS) do
    if order[tag] then words[#words + 1] = tag .. '=' .. order[tag] end
  end
  return table.concat(words, ' ')
end

-- How many units of the order were released (see stock.lua) in all.
local function released_of(order)
  local state = order.state
  return ((state == 'x' or state == 'e' or state == 'u') and order.quantity or 0) + (order.l and order.quantity or 0)
end

-- Takes units of a confirmed order back, as `note` says: `return QUANTITY RESTOCK DIGEST`, where the digest is the order's, and RESTOCK 1 if they are
-- for sale again, 0 if they leave the stock. The note stands under +NAME, so that this happens once. Returns the order's new record; nil: fewer
-- units are left.
local function take_back(key, item, terms, order, name, note, events)
  local units, restock, digest = string.match(note, '^return (%d+) (%d) (%S+)$')
  local returned = (order.r or 0) + units
  if order.state ~= 'c' or returned > order.quantity then return nil end
  order.r = string.format('%d', returned)
  order.state, order.version = returned == order.quantity and 'r' or 'c', order.version + 1
  local record = record_of(order)
  move(key, item, units, 'sold', 'available', digest, record, '+' .. name, note)
  tell(events, digest, record)
  if restock == '0' then bring(key, item, -units, 'return', name, note, events) end
  add(key, 'returned', units)
  if terms.limit > 0 then add(key, '@' .. order.user, -units) end
  return record
end
