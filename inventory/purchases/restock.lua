-- Adds units, once for each key. KEYS: item, restocks, events. ARGV: digest of the key, quantity, the largest stock allowed, whether the event
-- stream is written (on | off).
-- Replies {replayed (0 | 1), quantity, stock, available} as they were when it happened, or {'unknown-item'}, {'key-reused'} or
--   {'too-many', how many units more are allowed}.
local item, restocks, events = KEYS[1], KEYS[2], KEYS[3]
local c = redis.call('HMGET', item, 'available', 'initial', 'restocked')
if not c[1] then return {'unknown-item'} end

local record = redis.call('HGET', restocks, ARGV[1])
if record then
  local quantity, stock, available = string.match(record, '^(%d+) (%d+) (%d+)$')
  if quantity ~= ARGV[2] then return {'key-reused'} end
  return {1, tonumber(quantity), tonumber(stock), tonumber(available)}
end

local quantity = tonumber(ARGV[2])
local available, stock = tonumber(c[1]) + quantity, tonumber(c[2]) + tonumber(c[3]) + quantity
local room = tonumber(ARGV[3]) - (stock - quantity)
if quantity > room then return {'too-many', math.max(room, 0)} end
redis.call('HSET', restocks, ARGV[1], string.format('%.0f %.0f %.0f', quantity, stock, available))
if ARGV[4] == 'on' then redis.call('XADD', events, '*', 'restock', ARGV[2]) end
redis.call('HINCRBY', item, 'available', quantity)
redis.call('HINCRBY', item, 'restocked', quantity)
return {0, quantity, stock, available}
