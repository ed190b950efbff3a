-- A lock changes hands: one call gives it back, passes it to whoever waits longest, or takes it.
-- KEYS  the lock, its fence, its line of those who wait
-- ARGV  giving, wanting: owners, or ''; ttl_ms; fences: how many a grant comes with; name: of the key;
--       line_ms: how long the line is kept, 0: does not wait in it, -1: `giving` leaves it
-- gives {1 if `wanting` has it, its first fence, what the holder has left in ms, 1 if `giving` had it}
local lock, fence, line = KEYS[1], KEYS[2], KEYS[3]
local giving, wanting, ttl_ms, fences, name, line_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])

-- Whose process does not listen has died, and its place with it.
local function first_that_listens()
  while true do
    local owner = redis.call('LPOP', line)
    if not owner or owner == wanting then return owner end
    if redis.call('PUBLISH', 'lock:wake:' .. string.sub(owner, 1, 16), owner .. ' ' .. name) > 0 then return owner end
  end
end

local given = 0
local holder = redis.call('GET', lock)
if line_ms < 0 then redis.call('LREM', line, 1, giving) end
if giving ~= '' and holder == giving then
  given, holder = 1, false
end
if wanting ~= '' and holder == wanting then -- passed to it, or an earlier answer was lost
  redis.call('PEXPIRE', lock, ttl_ms)
  return {1, tonumber(redis.call('GET', fence)) - fences + 1, 0, given}
end
if not holder then
  local owner = first_that_listens() or wanting
  if owner ~= '' then
    local newest = redis.call('INCRBY', fence, fences)
    redis.call('SET', lock, owner, 'PX', ttl_ms)
    if owner == wanting then return {1, newest - fences + 1, 0, given} end
  elseif given == 1 then
    redis.call('DEL', lock)
  end
end
if wanting == '' then return {0, 0, 0, given} end
if line_ms > 0 then
  if not redis.call('LPOS', line, wanting) then redis.call('RPUSH', line, wanting) end
  redis.call('PEXPIRE', line, line_ms)
end
return {0, 0, redis.call('PTTL', lock), given}
