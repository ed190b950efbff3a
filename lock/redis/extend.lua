-- Returns 1 if the value begins with this owner, otherwise 0. If so, the key lives for another ttl_ms at least; with
-- ttl_ms 0 it expires when it did before.
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
local ttl_ms = tonumber(ARGV[2])
if redis.call('PTTL', KEYS[1]) < ttl_ms then redis.call('PEXPIRE', KEYS[1], ttl_ms) end
return 1
