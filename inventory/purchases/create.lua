-- Creates an item (see stock.lua), once. KEYS: item[, holds, due, shortage, token, events]. ARGV: terms.
-- Replies 1 created | 0 it exists on the same terms (whatever was sold since) | -1 it exists on other terms.
--
-- With all keys, as in a cluster, each is made to exist, by an entry '' that means nothing (of the events: 'create'). While a slot moves, a
-- script is not carried out if one of its keys is missing (TRYAGAIN), though the server would have it if it existed.
local item, holds, due, shortage, token, events = unpack(KEYS)
local standing = redis.call('HGET', item, 'terms')
if standing then return standing == ARGV[1] and 0 or -1 end
redis.call('HSET', item, 'terms', ARGV[1], 'available', string.match(ARGV[1], '%d+'), 'held', 0, 'sold', 0, 'shortage', 0, 'restocked', 0, 'returned', 0)
if holds then
  redis.call('ZADD', holds, '+inf', '')
  redis.call('ZADD', due, '+inf', '')
  redis.call('HSET', shortage, '', '')
  redis.call('SET', token, '', 'NX') -- the newest one outlives the item
  redis.call('XADD', events, '*', 'create', ARGV[1])
end
return 1
