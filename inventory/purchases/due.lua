-- Moves an item in the index of due times, or takes it out, once its holds were seen to.
--
-- KEYS: a part of the index (sorted set: item by when its next hold may be due; see holds.c). ARGV: item, the score that was read, the new
-- one ('': it has no holds). Replies 1, or 0 where another score stands there: a new first hold begins, or another has seen to it.
local index, item, read, new = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('ZSCORE', index, item) ~= read then return 0 end
if new == '' then
  redis.call('ZREM', index, item)
else
  redis.call('ZADD', index, new, item)
end
return 1
