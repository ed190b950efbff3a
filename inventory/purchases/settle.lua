-- Settles holds: confirms, cancels or expires them. Also reads one order, since a due hold expires when it is read.
--
-- KEYS: item, holds, due[, events] (see stock.lua). ARGV: what, then
--   get, confirm, cancel: digest, when the request arrived ('': now), whose order it must be ('': anybody's). Replies the record after the step, or
--     false if there is no such order. A request that arrived in time is not too late unless the hold was settled before. So a hold expires by itself only half a second after it
--     was due.
--   sweep: how many holds at most, when the sweep began. Expires the holds that were due when the sweep began, since this call may have stood still
--     together with requests that arrived in time. Then the item stands in the index of due times by its next hold. Replies {how many holds it
--     handled, whether the item's place in the index has changed (0 | 1)}.
--   over: the same for holds that are due now, or were due by that time, which is of another server's clock.
-- Times (ms) are by this server's clock. A settled order stays as it is, so each call is idempotent, and the first one wins.
local key, holds, due, events = unpack(KEYS)
local what = ARGV[1]

local function settle(item, terms, digest, record, state)
  local quantity, user = string.match(record, '^h%d* (%d+) (%S+)')
  record = next_record(record, state)
  move(key, item, quantity, 'held', state == 'c' and 'sold' or 'available', digest, record)
  tell(events, digest, record)
  call('ZREM', holds, digest)
  if state ~= 'c' then
    add(key, 'returned', quantity)
    if terms.limit > 0 then add(key, '@' .. user, -quantity) end
  end
  return record
end

if what == 'sweep' or what == 'over' then
  local item, terms = read(key)
  local now = (what == 'sweep' and math.min or math.max)(clock(), tonumber(ARGV[3]))
  local ended = item and call('ZRANGEBYSCORE', holds, '-inf', now - HOLD_GRACE_MS, 'LIMIT', 0, ARGV[2]) or {}
  for _, digest in ipairs(ended) do
    local record = call('HGET', key, digest)
    if record and string.match(record, '^h%d* %d+ %S') then
      settle(item, terms, digest, record, 'e')
    else
      call('ZREM', holds, digest) -- the entry has no hold: an interrupted `decr` may leave one
    end
  end
  local next = item and call('ZRANGE', holds, 0, 0, 'WITHSCORES')[2]
  if next and next ~= 'inf' then -- the entry '' of create.lua
    return {#ended, call('ZADD', due, 'CH', next, key)}
  end
  return {#ended, call('ZREM', due, key)}
end

local item, terms = read(key, ARGV[2])
local record = item and item[5]
if not record or ARGV[4] ~= '' and string.match(record, '^%a%d* %d+ (%S+)') ~= ARGV[4] then return false end
if string.sub(record, 1, 1) ~= 'h' then return record end
local now = clock()
local over = what == 'get' and now - HOLD_GRACE_MS or math.min(now, tonumber(ARGV[3]) or now)
local is_over = tonumber(string.match(record, '(%d+)$')) <= over
local state = is_over and 'e' or what == 'confirm' and 'c' or what == 'cancel' and 'x'
return state and settle(item, terms, ARGV[2], record, state) or record
