-- All that some keys of one slot have.
-- KEYS: the keys. Answers for each: its type, its time to live, what it holds; a hash as fields and values in turn.

local found = {}
for number, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local held = false
  if kind == 'string' then
    held = redis.call('GET', key)
  elseif kind == 'hash' then
    held = redis.call('HGETALL', key)
  elseif kind == 'set' then
    held = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then
    held = redis.call('ZRANGE', key, 0, -1)
  elseif kind == 'list' then
    held = redis.call('LRANGE', key, 0, -1)
  end
  found[number] = {kind, redis.call('TTL', key), held}
end
return found
