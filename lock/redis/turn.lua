-- A lock changes hands: one call gives it back, passes it to whoever waits longest, or takes it.
-- KEYS  the lock, its fence, its line of those who wait
-- ARGV  giving, wanting: owners, or ''; ttl_ms; line_ms, if the line is meant too: `wanting` waits in it, which is kept for so long; '-1':
--       `giving` leaves it
-- gives the last of the grant's fences, if `wanting` has it now; if not, -1 less the ms that its holder has left;
--       where nobody wants it 1 if `giving` had it, or 0
local FENCES = 16 -- of a grant: REDIS_OWNER_FENCES
local lock, fence, line = KEYS[1], KEYS[2], KEYS[3]
local giving, wanting, ttl_ms, line_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- As it mostly is: nobody has it, or nobody waits for it.
if giving == '' and redis.call('EXISTS', line) == 0 then
  if redis.call('SET', lock, wanting, 'NX', 'PX', ttl_ms) then
    local newest = redis.pcall('INCRBY', fence, FENCES)
    if type(newest) ~= 'number' then redis.call('DEL', lock) end
    return newest
  end
elseif giving ~= '' and wanting == '' and not line_ms and redis.call('GET', lock) == giving and redis.call('EXISTS', line) == 0 then
  return redis.call('DEL', lock)
end

if line_ms == '-1' then redis.call('LREM', line, 1, giving) end
local holder = redis.call('GET', lock)
local given = giving ~= '' and holder == giving
if given then holder = false end

if wanting ~= '' and holder == wanting then -- passed to it, or an earlier answer was lost
  redis.call('PEXPIRE', lock, ttl_ms)
  return tonumber(redis.call('GET', fence))
end

if not holder then
  local first = redis.call('LPOP', line)
  while first and first ~= wanting do
    local channel = 'lock:wake:' .. string.sub(first, 1, 16)
    if redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
      redis.call('PUBLISH', channel, first .. ' ' .. string.sub(lock, #'lock:{' + 1, -2))
      break
    end -- its process has died, and its place with it (patterns that match do not count: others listen by those)
    first = redis.call('LPOP', line)
  end
  local owner = first or wanting
  if owner ~= '' then
    local newest = redis.call('INCRBY', fence, FENCES) -- before the other: should it fail nothing is done
    redis.call('SET', lock, owner, 'PX', ttl_ms)
    if owner == wanting then return newest end
  elseif given then
    redis.call('DEL', lock)
  end
end

if wanting == '' then return given and 1 or 0 end
if line_ms then
  if not redis.call('LPOS', line, wanting) then redis.call('RPUSH', line, wanting) end
  redis.call('PEXPIRE', line, line_ms)
end
local left_ms = redis.call('PTTL', lock)
return -1 - (left_ms < 0 and 1000 or left_ms) -- below 0: somebody has set it without an end
