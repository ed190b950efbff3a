-- Settles holds: confirm, cancel, expire. It also reads one order, since a hold that is due expires when it is read.
--
-- KEYS: item, holds, due[, events] (see stock.lua). ARGV: what, then
--   get: digest. confirm, cancel: digest, when the request arrived ('': now). Replies the record after the step, or false if there is no
--     such order. A request that arrived in time is not too late unless the hold was settled before; so a hold expires by itself only half a
--     second after it was due.
--   sweep: how many holds at most, when the sweep began. Expires the holds that were due then: this call may have stood still since, and requests
--     that arrived in time with it. Then the index of due times has the item by its next hold. Replies {how many it handled, whether the item's
--     place in the index has changed (0 | 1)}.
--   over: the same with holds that are due now, or were by that time: the clock of another server told it.
-- Times (ms) are of this server's clock. A settled order stays as it is, so each call can be repeated, and the first one wins.
local holds, due = KEYS[2], KEYS[3]
local what = ARGV[1]
local GRACE = 500 -- as INVENTORY_HOLD_GRACE_MS

local function settle(item, digest, record, state)
  local quantity, user = string.match(record, '^h%d* (%d+) (%S+)')
  record = next_record(record, state)
  move(item, quantity, 'held', state == 'c' and 'sold' or 'available')
  save(item, {digest, record}, 2)
  call('ZREM', holds, digest)
  if state ~= 'c' then
    add(item, 'returned', quantity)
    if item.terms.limit > 0 then add(item, '@' .. user, -quantity) end
  end
  return record
end

if what == 'sweep' or what == 'over' then
  local item = read(KEYS[1])
  local now = (what == 'sweep' and math.min or math.max)(clock(), tonumber(ARGV[3]))
  local ended = item and call('ZRANGEBYSCORE', holds, '-inf', now - GRACE, 'LIMIT', 0, ARGV[2]) or {}
  for _, digest in ipairs(ended) do
    item.events = KEYS[4]
    local record = call('HGET', item.key, digest)
    if record and string.find(record, '^h%d* %d+ %S') then
      settle(item, digest, record, 'e')
    else
      call('ZREM', holds, digest) -- not a hold: `decr` may leave such an entry if it is interrupted
    end
  end
  local next = item and call('ZRANGE', holds, 0, 0, 'WITHSCORES')[2]
  if next and next ~= 'inf' then -- which create.lua entered
    return {#ended, call('ZADD', due, 'CH', next, KEYS[1])}
  end
  return {#ended, call('ZREM', due, KEYS[1])}
end

local item, c = read(KEYS[1], ARGV[2])
local record = item and c[5]
if not record or string.sub(record, 1, 1) ~= 'h' then return record or false end
item.events = KEYS[4]
local now = clock()
local over = what == 'get' and now - GRACE or math.min(now, tonumber(ARGV[3]) or now)
local is_over = tonumber(string.match(record, '(%d+)$')) <= over
local state = is_over and 'e' or what == 'confirm' and 'c' or what == 'cancel' and 'x'
return state and settle(item, ARGV[2], record, state) or record
