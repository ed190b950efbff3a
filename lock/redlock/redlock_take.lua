-- One node's vote for an owner, in one of its rounds; an earlier round's is replaced.
-- KEYS  the lock
-- ARGV  owner, ttl_ms, value: begins with the owner and ends with the round
-- gives 1: the owner has the vote; 0: somebody else has
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return 1
