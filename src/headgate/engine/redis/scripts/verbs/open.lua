-- open: find or found the store of a partition. Stands alone.
-- KEYS[1] meta   ARGV[1] version   ARGV[2] a new epoch   ARGV[3] how many partitions   ARGV[4…] names of other keys
-- Older data is brought up to that version here. What 1 has not is the indexes of computed numbers; what 2 has not, tasks
-- that need threads, is nothing to be made; what 3 has not is the lists of jobs by state, which sweeps make bit by bit; what
-- 4 has not is the tag in the members of lines: `moving` says so until move_lines.lua, which the caller runs next, has
-- put it in, and how far that has come.
-- Answers {version before (0: founded now), epoch, partitions, '1' if lines are yet to be moved}; {'foreign', key} for keys of another program;
-- {'denied', why} for a user without the rights that scripts need. Cost: constant.
local meta = KEYS[1]
local base = string.sub(meta, 1, -5)
local kind = redis.call('TYPE', meta).ok
if kind ~= 'hash' and kind ~= 'none' then return {'foreign', meta} end
local found = redis.call('HMGET', meta, 'version', 'epoch', 'partitions')
if found[1] and tonumber(found[1]) > tonumber(ARGV[1]) then return {found[1], found[2], found[3]} end
if not found[1] then
  if kind == 'hash' then return {'foreign', meta} end
  for i = 4, #ARGV do
    local key = base .. ARGV[i]
    if redis.call('EXISTS', key) == 1 then return {'foreign', key} end
  end
end

-- A right that is missing would break a script off in the middle of its writing. So each command that writes is tried
-- here, in a way that changes nothing: on a key that is not there, with arguments that do not fit, or on one of another
-- type. Rights are asked before all that; no other refusal matters.
local function denied(command, ...)
  local answer = redis.pcall(command, ...)
  local said = type(answer) == 'table' and answer.err
  local right = said and (string.find(said, 'ACL failure', 1, true) or string.find(said, 'user executing', 1, true))
  return right and {'denied', command .. ': ' .. said}
end

local nothing = base .. 'nothing'
local no = denied('HSET', nothing, 'f', 'v', 'f')
if no then return no end
-- A script that has begun to write is not refused for want of memory any more, even if it changed nothing. So founding
-- is refused here, while nothing has been tried that needs none.
local first = redis.pcall('HSET', nothing, 'f', 'v', 'f')
if not found[1] and not string.find(first.err, 'wrong number', 1, true) then return first end
no = denied('DEL', nothing) or denied('HDEL', nothing, 'f') or denied('HINCRBY', nothing, 'f', 'v')
  or denied('MSET', nothing, 'v', nothing) or denied('SREM', nothing, 'm')
  or denied('ZADD', nothing, 'XX', 0, 'm') or denied('ZREM', nothing, 'm')
  or denied('ZREMRANGEBYRANK', nothing, 0, 0) or denied('ZREMRANGEBYSCORE', nothing, 0, 0)
  or denied('PUBLISH', base .. 'work', '\144') -- an empty list of queues
if no then return no end
if not found[1] then
  redis.call('HSET', meta, 'version', ARGV[1], 'epoch', ARGV[2], 'partitions', ARGV[3], 'seq', 0)
end
no = denied('SADD', meta, 'm') or denied('APPEND', meta, 'v')
if no then
  if not found[1] then redis.call('DEL', meta) end
  return no
end
if found[1] == '1' then
  local now = redis.call('TIME')[1] .. '000000'
  for _, ident in ipairs(redis.call('HKEYS', base .. 'computed')) do
    -- The name stands behind the kind and the tenant, whose length counts characters.
    local _, first, length = string.find(ident, '^.(%d+):')
    local text = string.sub(ident, first + 1)
    for _ = 1, tonumber(length) do text = string.gsub(text, '^.[\128-\191]*', '') end
    redis.call('ZADD', base .. 'computes', 0, string.match(text, '^[^=]*') .. '=' .. ident)
    redis.call('ZADD', base .. 'refreshed', now, ident)
  end
end
if found[1] and tonumber(found[1]) < 4 then
  local last = tonumber(redis.call('HGET', meta, 'seq')) -- up to the end of the block of 256 that it is in
  redis.call('HSET', meta, 'unindexed', string.format('%d', last - last % 256 + 255))
end
if found[1] and tonumber(found[1]) < 5 then redis.call('HSET', meta, 'moving', '') end
if found[1] and found[1] ~= ARGV[1] then redis.call('HSET', meta, 'version', ARGV[1]) end
if found[1] then return {found[1], found[2], found[3], tostring(redis.call('HEXISTS', meta, 'moving'))} end
return {'0', ARGV[2], ARGV[3]}
