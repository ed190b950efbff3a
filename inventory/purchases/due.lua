-- Moves an item in the index of due times, or removes it, after a sweep of its holds.
--
-- KEYS: a part of the index (sorted set: item by the time when its next hold may be due; see due.h).
-- ARGV: item, the score that was read, the new score ('': the item has no holds).
-- Replies 1, or 0 if another score stands there: a new first hold begins, or another sweep was faster.
local index, item, read, new = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('ZSCORE', index, item) ~= read then return 0 end
if new == '' then
  redis.call('ZREM', index, item)
else
  redis.call('ZADD', index, new, item)
end
return 1
