-- Adds units, once for each key. KEYS: item[, events]. ARGV: digest of the key, quantity, the largest stock allowed.
-- Replies {replayed (0 | 1), quantity, stock, available} as they were when it happened, or {'unknown-item'}, {'key-reused'} or
--   {'too-many', how many more units are allowed}.
local quantity = tonumber(ARGV[2])
local item, terms = read(KEYS[1], '+' .. ARGV[1], 'restocked')
if not item then return {'unknown-item'} end

if item[5] then
  local was, stock, available = string.match(item[5], '^(%d+) (%d+) (%d+)$')
  if was ~= ARGV[2] then return {'key-reused'} end
  return {1, quantity, tonumber(stock), tonumber(available)}
end

local stock = terms.initial + item[6] + quantity
local room = ARGV[3] - (stock - quantity)
if quantity > room then return {'too-many', math.max(room, 0)} end
local available = item[AVAILABLE] + quantity
bring(KEYS[1], item, quantity, 'restock', ARGV[1], string.format('%d %d %d', quantity, stock, available), KEYS[2])
return {0, quantity, stock, available}
