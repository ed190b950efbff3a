-- The lock epoch of all instances that sell from this store, and their heartbeats.
--
-- KEYS: the record (hash: epoch, lock), the instances (hash: id -> "EPOCH SEEN QUIET").
-- ARGV: what, then
--   heartbeat: id, epoch, lock, quiet, fresh, rewrite. The instance lives, has no grants older than `epoch`, and uses `lock`. Epoch 0: it starts,
--     has no grants at all, and wants `lock`. It gets that lock if there is no record, or if no other instance was seen within `fresh`.
--   switch: lock. A new epoch, also for the same lock: a lock server that has lost its data begins anew with its fences.
--   leave: id. The instance has no grants any more.
-- Replies {epoch, lock, live, behind, id, now}: how many instances live, the caller included; how many others may have grants older than the epoch;
-- the id of one of these ('' if there is none).
--
-- An instance that is silent for longer than its `quiet` has no grants any more, since they have run out. Until then it is behind. Times (ms) are by
-- this server's clock and are only compared with each other, to tell how long an instance was silent. If the clock is put forward by more
-- than `quiet`, all instances seem gone until their next heartbeat; the fencing tokens protect the stock even then.
--
-- A failover may lose the store's last moments, and the record with them. So an instance with a newer epoch restores the record, and two locks with
-- one epoch make a new epoch. A heartbeat that follows a written one within `rewrite` is not written.
local record, instances = KEYS[1], KEYS[2]
local what, id = ARGV[1], ARGV[2]
if what == 'leave' then redis.call('HDEL', instances, id) end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('HMGET', record, 'epoch', 'lock')
local was, lock = tonumber(found[1] or 0), found[2] or ''
local epoch = was

local fresh = what == 'heartbeat' and tonumber(ARGV[6]) or 0
local rows, mine, others, live = redis.call('HGETALL', instances), nil, {}, 0
for i = 1, #rows, 2 do
  local at, seen, quiet = string.match(rows[i + 1], '^(%d+) (%d+) (%d+)$')
  if what == 'heartbeat' and rows[i] == id then
    mine = rows[i + 1]
  elseif not at or now - seen > tonumber(quiet) then
    redis.call('HDEL', instances, rows[i])
  else
    others[rows[i]] = tonumber(at)
    if now - seen <= fresh then live = live + 1 end
  end
end

local function put(new_epoch, new_lock)
  epoch, lock = new_epoch, new_lock
  redis.call('HSET', record, 'epoch', string.format('%.0f', epoch), 'lock', lock)
end

local function raise(new_lock)
  local newest = was
  for _, at in pairs(others) do newest = math.max(newest, at) end
  put(newest + 1, new_lock)
end

if what == 'switch' then
  raise(id)
elseif what == 'heartbeat' then
  local own, wanted, quiet, rewrite = tonumber(ARGV[3]), ARGV[4], ARGV[5], tonumber(ARGV[7])
  if own == 0 then
    if was == 0 or (live == 0 and lock ~= wanted) then raise(wanted) end
    own = epoch
  elseif own > was then
    put(own, wanted)
  elseif own == was and lock ~= wanted then
    raise(lock)
  end
  local at, seen, told = string.match(mine or '', '^(%d+) (%d+) (%d+)$')
  if not at or tonumber(at) ~= own or told ~= quiet or math.abs(now - seen) >= rewrite then
    redis.call('HSET', instances, id, string.format('%.0f %.0f %s', own, now, quiet))
  end
end

local behind, one = 0, ''
for other, at in pairs(others) do
  if at < epoch then behind, one = behind + 1, other end
end
return {epoch, lock, live + 1, behind, one, now}
