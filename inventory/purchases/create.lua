-- Creates an item, once. KEYS: item[, orders, users, holds, restocks, shortage, token, events]. ARGV: initial, limit, starts, ends, hold, strategy.
-- Replies 1 created | 0 it exists on the same terms (whatever was sold since) | -1 it exists on other terms.
--
-- With all keys, as in a cluster, each is made to exist, by an entry '' that means nothing (of the events: 'create'). While a slot moves, a
-- script is not carried out if one of its keys is missing (TRYAGAIN), though the server would have it if it existed.
local names = {'initial', 'limit', 'starts', 'ends', 'hold', 'strategy'}
local item, orders, users, holds, restocks, shortage, token, events = unpack(KEYS)
local standing = redis.call('HMGET', item, unpack(names))
if standing[1] then
  for i = 1, #names do
    if standing[i] ~= ARGV[i] then return -1 end
  end
  return 0
end
-- First what a purchase reads: Redis searches a small hash from its start. `terms` repeats the five terms as one text, since to read five
-- fields costs a purchase as much as one of its writes. Nothing changes them later.
redis.call('HSET', item, 'available', ARGV[1], 'sold', 0, 'terms', table.concat(ARGV, ' ', 2), 'held', 0, 'limit', ARGV[2], 'starts', ARGV[3],
  'ends', ARGV[4], 'hold', ARGV[5], 'strategy', ARGV[6], 'initial', ARGV[1], 'restocked', 0, 'returned', 0)
if orders then
  redis.call('HSET', orders, '', '')
  redis.call('HSET', users, '', 0)
  redis.call('ZADD', holds, '+inf', '')
  redis.call('HSET', restocks, '', '')
  redis.call('HSET', shortage, '', '')
  redis.call('SET', token, '', 'NX') -- the newest one outlives the item
  redis.call('XADD', events, '*', 'create', ARGV[1])
end
return 1
