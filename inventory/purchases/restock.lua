-- Adds units, once for each key. KEYS: item[, events]. ARGV: digest of the key, quantity, the largest stock allowed.
-- Replies {replayed (0 | 1), quantity, stock, available} as they were when it happened, or {'unknown-item'}, {'key-reused'} or
--   {'too-many', how many units more are allowed}.
local field, quantity = '+' .. ARGV[1], tonumber(ARGV[2])
local item, c = read(KEYS[1], field, 'restocked')
if not item then return {'unknown-item'} end

if c[5] then
  local was, stock, available = string.match(c[5], '^(%d+) (%d+) (%d+)$')
  if was ~= ARGV[2] then return {'key-reused'} end
  return {1, quantity, tonumber(stock), tonumber(available)}
end

local stock = item.terms.initial + c[6] + quantity
local room = ARGV[3] - (stock - quantity)
if quantity > room then return {'too-many', math.max(room, 0)} end
move(item, quantity, 'outside', 'available')
save(item, {field, string.format('%.0f %.0f %.0f', quantity, stock, item.available)}, 0)
if KEYS[2] then call('XADD', KEYS[2], '*', 'restock', ARGV[2]) end
return {0, quantity, stock, item.available}
