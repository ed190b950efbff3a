-- Reads an item for a holder with a fence: ARGV. From then on no write with an older fence is taken.
if tonumber(ARGV[1]) > tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) then
    redis.call('HSET', KEYS[1], 'fence', ARGV[1])
end
return redis.call('HMGET', KEYS[1], 'initial', 'available', 'sold')
