-- Creates an item (see stock.lua) once. KEYS: item[, holds, due, shortage, token, events]. ARGV: terms.
-- Replies 1 created | 0 it exists on the same terms (whatever was sold since) | -1 it exists on other terms.
--
-- With all keys, as in a cluster, each key is made to exist by an entry '' that means nothing (in the events: 'create'). While a slot moves, a
-- server refuses a script that has a missing key (TRYAGAIN), even if the other keys are there.
local item, holds, due, shortage, token, events = unpack(KEYS)
local standing = redis.call('HGET', item, 'terms')
if standing then return standing == ARGV[1] and 0 or -1 end
redis.call('HSET', item, 'terms', ARGV[1], 'available', string.match(ARGV[1], '%d+'), 'held', 0, 'sold', 0, 'shortage', 0, 'restocked', 0, 'released', 0,
  'returned', 0)
if holds then
  redis.call('ZADD', holds, '+inf', '')
  redis.call('ZADD', due, '+inf', '')
  redis.call('HSET', shortage, '', '')
  redis.call('SET', token, '', 'NX') -- keeps the token of an earlier item of this name
  redis.call('XADD', events, '*', 'create', ARGV[1])
end
return 1
