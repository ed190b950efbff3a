-- Deletes the lock if its value begins with ARGV[1]: an owner, for any of its rounds; or an owner and one round.
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
