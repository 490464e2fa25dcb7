-- queues: jobs per state and queue, the paused queues, and since when the first of each queue's ready jobs is due.
-- input {queue …} to go on with, or false   answers {{'state:queue', number …}, {paused queue …}, {queue, due …}, {queue
-- … that were left}}; the first two only where it begins. Cost: queues × states; at most 500 priorities in lines of
-- ready jobs beyond the first queue. Where jobs of shares are ready, the first 20 tags of a priority tell.
local MOST, TAGS, looks = 500, 20, 0

-- Within a priority the first member is the one that was due first, and of jobs of shares the first of each tag: the
-- next tags are looked at, too, as far as that is allowed. `width` is that of what stands before the tag.
local function earliest(key, width)
  local from, least, tags = '', nil, 0
  while from do
    looks = looks + 1
    local member = call('ZRANGEBYLEX', key, '[' .. from, '+', 'LIMIT', '0', '1')[1]
    if not member then break end
    local due, group = tonumber(sub(member, width + 17, width + 32)) - 1e15, sub(member, 1, width)
    if not least or due < least then least = due end
    tags = sub(from, 1, width) == group and tags + 1 or 0
    from = sub(member, 1, width + 16) .. ':'
    if tags > TAGS then
      from = tonumber(group) + 1 < 10 ^ width and format('%0' .. width .. 'd', tonumber(group) + 1)
    end
  end
  return least
end

-- Queue → its lines besides the one of all its ready jobs.
local function other_lines()
  local found = {}
  for _, kind in ipairs({'aside', 'thread', 'suspect'}) do
    for _, name in ipairs(call('SMEMBERS', base .. kind .. 's')) do
      local queue = kind == 'suspect' and sub(name, 2) or name
      if kind ~= 'suspect' or sub(name, 1, 1) ~= 'r' then queue = Text.parted(queue) end
      local lines = Write.of(found, queue)
      lines[#lines + 1] = {base .. kind .. ':' .. name, kind == 'suspect' and 3 or 2}
    end
  end
  return found
end

local function oldest(queue, others)
  local least = earliest(base .. 'ready:' .. queue, 2)
  for _, line in ipairs(others or Lines.NONE) do
    local due = earliest(line[1], line[2])
    if due and (not least or due < least) then least = due end
  end
  return least
end

local function verb(given)
  local names, dues, left, others = given or call('SMEMBERS', base .. 'queues'), {}, {}, other_lines()
  looks = 0
  for _, queue in ipairs(names) do
    if looks < MOST then
      local due = oldest(queue, others[queue])
      if due then dues[#dues + 1], dues[#dues + 2] = queue, due end
    else
      left[#left + 1] = queue
    end
  end
  if given then return {Lines.NONE, Lines.NONE, dues, left} end
  return {call('HGETALL', base .. 'counts'), call('SMEMBERS', base .. 'paused'), dues, left}
end
