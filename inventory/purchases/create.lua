-- Creates an item, once. KEYS: item. ARGV: initial, limit, starts, ends, hold, strategy.
-- Replies 1 created | 0 it exists on the same terms (whatever was sold since) | -1 it exists on other terms.
local names = {'initial', 'limit', 'starts', 'ends', 'hold', 'strategy'}
local standing = redis.call('HMGET', KEYS[1], unpack(names))
if standing[1] then
  for i = 1, #names do
    if standing[i] ~= ARGV[i] then return -1 end
  end
  return 0
end
redis.call('HSET', KEYS[1], 'available', ARGV[1], 'restocked', 0, 'held', 0, 'sold', 0, 'returned', 0, 'initial', ARGV[1],
  'limit', ARGV[2], 'starts', ARGV[3], 'ends', ARGV[4], 'hold', ARGV[5], 'strategy', ARGV[6])
return 1
