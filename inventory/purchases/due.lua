-- Finds items with holds that may be over. KEYS: indexes of due times (see stock.lua). ARGV: the time, how many items at most.
-- Replies the items' keys.
local items = {}
if redis.call('EXISTS', unpack(KEYS)) == 0 then return items end -- a shop without holds costs one command
for _, due in ipairs(KEYS) do
  for _, item in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', ARGV[1], 'LIMIT', 0, ARGV[2] - #items)) do
    items[#items + 1] = item
  end
end
return items
