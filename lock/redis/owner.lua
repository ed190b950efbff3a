-- One call releases a lock, passes it on to the process that waits longest, or acquires it.
-- KEYS  the lock, its fence, its list of waiting owners
-- ARGV  releasing: an owner, or ''; acquiring: an owner, or ''; ttl_ms; list_ms, optional:
--       'acquiring' waits in the list, which expires after list_ms; '-1': 'releasing' leaves the list
-- Returns the last of the grant's fences if 'acquiring' has the lock now; otherwise -1 - N, where N is the ms that
--       the holder has left. Without 'acquiring': 1 if 'releasing' had the lock, otherwise 0
local FENCES = 16 -- of a grant: OWNER_FENCES
local lock, fence, list = KEYS[1], KEYS[2], KEYS[3]
local releasing, acquiring, ttl_ms, list_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- The last fence of the next grant. It is the server's clock, in microseconds: a server that was promoted, or lost its
-- last writes in a crash, may lack the last fences, but its clock is beyond them. Where the clock is behind, it counts.
local function next_fence()
  local now = redis.call('TIME')
  local newest = now[1] * 1000000 + now[2]
  local before = redis.call('SET', fence, string.format('%.0f', newest), 'GET')
  if before and before + FENCES > newest then
    newest = before + FENCES
    redis.call('SET', fence, string.format('%.0f', newest))
  end
  return newest
end

-- The usual case: acquire a free lock that no process waits for.
if releasing == '' and redis.call('EXISTS', list) == 0 then
  if redis.call('SET', lock, acquiring, 'NX', 'PX', ttl_ms) then
    local raised, newest = pcall(next_fence)
    if raised then return newest end
    redis.call('DEL', lock)
    error(newest, 0)
  end
end

if list_ms == '-1' then redis.call('LREM', list, 1, releasing) end
local holder = redis.call('GET', lock)
local released = releasing ~= '' and holder == releasing
if released then holder = false end

if acquiring ~= '' and holder == acquiring then -- a release has passed the lock on to it, or an earlier answer was lost
  redis.call('PEXPIRE', lock, ttl_ms)
  return tonumber(redis.call('GET', fence))
end

if not holder then
  local first = redis.call('LPOP', list)
  while first and first ~= acquiring do
    local channel = 'lock:wake:' .. string.sub(first, 1, 16)
    if redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
      redis.call('PUBLISH', channel, first .. ' ' .. string.match(lock, '^lock:{ ?(.*)}$'))
      break
    end -- no subscriber: the process has died, and its place is void. (Pattern subscribers are not counted)
    first = redis.call('LPOP', list)
  end
  local owner = first or acquiring
  if owner ~= '' then
    local newest = next_fence() -- before SET: if it fails, nothing is done
    redis.call('SET', lock, owner, 'PX', ttl_ms)
    if owner == acquiring then return newest end
  elseif released then
    redis.call('DEL', lock)
  end
end

if acquiring == '' then return released and 1 or 0 end
if list_ms then
  if not redis.call('LPOS', list, acquiring) then redis.call('RPUSH', list, acquiring) end
  redis.call('PEXPIRE', list, list_ms)
end
local left_ms = redis.call('PTTL', lock)
return -1 - (left_ms < 0 and 1000 or left_ms) -- below 0: another program has set the key without an expiry
