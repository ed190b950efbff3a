-- Sells units of an item. KEYS: the item, and the item's sales that were made once. ARGV: quantity, fence (0: none),
-- what is left as the seller computed it ('': the store computes it), idempotency key ('': none).
-- Returns the reason of a refusal, or initial, available, sold.
local quantity, fence = tonumber(ARGV[1]), tonumber(ARGV[2])
if fence > 0 then
    if fence < tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) then return 'stale' end
    redis.call('HSET', KEYS[1], 'fence', ARGV[2])
end
if ARGV[4] ~= '' and redis.call('SADD', KEYS[2], ARGV[4]) == 0 then return 'repeated' end
if ARGV[3] ~= '' then
    redis.call('HSET', KEYS[1], 'available', ARGV[3])
elseif tonumber(redis.call('HGET', KEYS[1], 'available') or 0) < quantity then
    return 'sold-out'
else
    redis.call('HINCRBY', KEYS[1], 'available', 0 - quantity) -- -0 is no integer to Redis
end
redis.call('HINCRBY', KEYS[1], 'sold', quantity)
return redis.call('HMGET', KEYS[1], 'initial', 'available', 'sold')
