-- open: find or found the store of a partition. Stands alone.
-- KEYS[1] meta   ARGV[1] version   ARGV[2] a new epoch   ARGV[3] how many partitions   ARGV[4…] names of other keys
-- Answers {version, epoch, partitions, created}, or {'foreign', key} for keys that are not ours. Cost: constant.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then return {'foreign', KEYS[1]} end
local found = redis.call('HMGET', KEYS[1], 'version', 'epoch', 'partitions')
if found[1] then return {found[1], found[2], found[3], '0'} end
if kind == 'hash' then return {'foreign', KEYS[1]} end
for i = 4, #ARGV do
  local key = string.sub(KEYS[1], 1, -5) .. ARGV[i]
  if redis.call('EXISTS', key) == 1 then return {'foreign', key} end
end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'epoch', ARGV[2], 'partitions', ARGV[3], 'seq', 0)
return {ARGV[1], ARGV[2], ARGV[3], '1'}
