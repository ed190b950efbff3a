-- One server's vote for an owner, in one of its rounds. It replaces the vote of an earlier round.
-- KEYS  the lock
-- ARGV  owner, ttl_ms, value: the owner and the number of the round
-- Returns 1: the owner has the vote; 0: another owner has it.
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return 1
