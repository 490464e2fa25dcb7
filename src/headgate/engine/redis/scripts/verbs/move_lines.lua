-- move_lines: put a tag into the members of lines of version 4, a slice at a time. Stands alone.
-- KEYS[1] meta   ARGV[1] version   answers whether lines are left, '1' or '0'; 'version' if the data is of another one.
--
-- Members that have their tag have score 1, the others 0, so that any number of callers may do this at once, and one that
-- died leaves nothing half done. Until it is done no other verb runs: each process does this when it opens the store.
-- `moving` is the last line that was done: those of queues and tasks first, then those of waiters, key by key.
-- Cost: at most 500 members, or 100 lines.
local meta, call = KEYS[1], redis.call
local base = string.sub(meta, 1, -5)
local MEMBERS, LINES, UNTAGGED = 500, 100, string.rep('0', 16)
local left = MEMBERS

local found = call('HMGET', meta, 'version', 'moving')
if found[1] ~= ARGV[1] then return 'version' end
if not found[2] then return '0' end

-- In lines of suspects a mark stands before the priority.
local function tagged(member, from)
  return string.sub(member, 1, from) .. UNTAGGED .. string.sub(member, from + 1)
end

-- Answers whether the line is done.
local function move(name, from)
  local key = base .. name
  local members = call('ZRANGEBYSCORE', key, '0', '0', 'LIMIT', '0', left)
  left = left - #members
  for _, member in ipairs(members) do
    call('ZREM', key, member)
    call('ZADD', key, '1', tagged(member, from))
  end
  return left > 0
end

local function joined(first, second)
  return #first .. ':' .. first .. second
end

-- Lines of ready jobs: of queues, of what was set aside, of suspects. Queues and tasks are few.
local function ready_lines()
  local names = {}
  for _, queue in ipairs(call('SMEMBERS', base .. 'queues')) do names[#names + 1] = 'ready:' .. queue end
  for _, kind in ipairs({'aside', 'thread', 'suspect'}) do
    for _, name in ipairs(call('SMEMBERS', base .. kind .. 's')) do names[#names + 1] = kind .. ':' .. name end
  end
  table.sort(names)
  return names
end

local function reached(place)
  call('HSET', meta, 'moving', place)
  return '1'
end

local cursor = found[2]
if string.sub(cursor, 1, 1) ~= 'w' then
  for _, name in ipairs(ready_lines()) do
    if 'r' .. name > cursor then
      if not move(name, string.sub(name, 1, 8) == 'suspect:' and 3 or 2) then return reached(cursor) end
      cursor = 'r' .. name
    end
  end
  return reached('w')
end
local last = string.sub(cursor, 2)
local waited = call('ZRANGEBYLEX', base .. 'waited', last == '' and '-' or '(' .. last, '+', 'LIMIT', '0', LINES)
for _, member in ipairs(waited) do
  local ident = string.sub(member, string.find(member, '=', 1, true) + 1)
  for _, queue in ipairs(cmsgpack.unpack(call('HGET', base .. 'waitqs', ident) or '\144')) do
    if not move('wait:' .. joined(queue, ident), 2) then return reached('w' .. last) end
  end
  last = member
end
if #waited == LINES then return reached('w' .. last) end
call('HDEL', meta, 'moving')
return '0'
