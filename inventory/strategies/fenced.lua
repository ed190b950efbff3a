-- A purchase of strategy `locked` under a lock with fences, in two calls: a read, and later a write. Under a lock without fences only the read is
-- made here, with fence 0: it stops holders whose grant is of an older lock epoch.
--
-- A holder can be paused past the end of its lock and not know it. So each call brings the fencing token EPOCH:FENCE, and is refused if a newer token
-- was seen. A read counts as seen. If only writes did, an old holder could still write between the read and the write of the new holder,
-- whose write would then rest on a read that is outdated. Both numbers have leading zeros, so that the order of the texts is the order of the
-- tokens: numbers are exact only up to 2^53 here.
--
-- KEYS: item, holds, due, token[, events] (see stock.lua).
-- ARGV: what, token, digest, user, then
--   read: names of fields. Replies {'read', the item's fields, the user's units, now (ms, by this server's clock)}.
--   write: quantity, record, expiry of the hold (0: none). Replies {'sold'}, or {a reason to refuse, available}.
-- Either may also reply {'order', record}: this key has its order already, however old the token | {'stale'} | {'unknown-item'}.
--
-- The newest token is a key of its own, since it must outlive the item, which may be created anew.
local what, token, digest, user = unpack(ARGV, 1, 4)

local key, holds, due, newest_token, events = unpack(KEYS)
local item, terms = read(key, digest, '@' .. user)
if not item then return {'unknown-item'} end
if item[5] then return {'order', item[5]} end

local newest = call('GET', newest_token)
if newest and token < newest then return {'stale'} end
if newest ~= token then call('SET', newest_token, token) end

local now = clock()
if what == 'read' then return {'read', call('HMGET', key, unpack(ARGV, 5)), item[6], now} end

-- Restocks, ending holds and late confirms need no lock and may have moved units since the read, so the write goes by what is there now. The fence
-- ensures that no purchase came between. That is checked all the same, since a lock server that failed over may give out one fence twice.
local quantity, record, expires = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local had = tonumber(item[6] or 0)
local word = refusal(terms, now, item[AVAILABLE], quantity, had)
if word then return {word, item[AVAILABLE]} end
local new = {digest, record}
if terms.limit > 0 then new[3], new[4] = '@' .. user, had + quantity end
move(key, item, quantity, 'available', expires ~= '0' and 'held' or 'sold', unpack(new))
tell(events, digest, record)
if expires ~= '0' then hold(key, holds, due, {expires, digest}) end
return {'sold'}
