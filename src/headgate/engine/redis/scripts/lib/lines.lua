-- Lines: sorted sets in which all have the same score, read in the order of their members. Part of every script.
--
-- What a step puts into a line or takes out of it is kept beside it and looked through until the step is written. Where
-- functions are kept, so are the tables of lines: `turn` says whether what stands in one is of this step.

Lines.NONE = {}
Lines.SCORE = '1' -- that of older data is 0, see move_lines.lua

function Lines.make(kind, key, queue, other)
  return Lines.renew({
    turn = 0, kind = kind, key = base .. key, queue = queue, other = other, added = Lines.NONE, gone = Lines.NONE,
    more = 0, less = 0, stored = false, head = false, asked = 0, front = Lines.NONE, taken = 0, seen = 0, plain = false,
    started = false,
  })
end

-- Nothing is known of the line in this step. `front` are its first members as stored, of which so many are `taken`, one
-- after the other; others that left are `gone`.
function Lines.renew(line)
  line.turn, line.added, line.gone, line.more, line.less = turn, Lines.NONE, Lines.NONE, 0, 0
  line.stored, line.head, line.asked, line.front, line.seen, line.plain = false, false, 0, Lines.NONE, 0, false
  line.taken, line.started = 0, false
  Lines.all[#Lines.all + 1] = line
  return line
end

function Lines.ready(queue)
  local line = Lines.readies[queue]
  if not line then
    line = Transaction.shelf.readies[queue]
    if line then
      Lines.renew(line)
    else
      line = Lines.make('ready', 'ready:' .. queue, queue)
      Transaction.shelf.readies[queue], Transaction.shelf.known = line, Transaction.shelf.known + 1
    end
    Lines.readies[queue] = line
  end
  return line
end

-- Ready jobs of a task that were set aside: 'aside' because it was unknown, 'thread' for lack of threads.
function Lines.aside(why, queue, task)
  local key = why .. ':' .. Text.join(queue, task)
  local line = Lines.asides[key]
  if not line then
    line = Lines.make(why, key, queue, task)
    Lines.asides[key] = line
  end
  return line
end

-- Ready suspects of a queue, or those of a task in it that were set aside: apart from the other ready jobs.
function Lines.suspects(queue, why, task)
  local name = why and sub(why, 1, 1) .. Text.join(queue, task) or 'r' .. queue
  local line = Lines.suspected[name]
  if not line then
    line = Lines.make('suspect', 'suspect:' .. name, queue, why and task)
    line.name, line.why, Lines.suspected[name] = name, why, line
  end
  return line
end

-- The ready and waiting jobs with a share at a place: priority and queue. Those of one share stand together.
function Lines.place(place)
  local line = Lines.places[place]
  if not line then
    line = Transaction.shelf.places[place]
    if line then
      Lines.renew(line)
    else
      line = Lines.make('place', 'share:' .. place, place)
      Transaction.shelf.places[place], Transaction.shelf.known = line, Transaction.shelf.known + 1
    end
    Lines.places[place] = line
  end
  return line
end

-- The ready and waiting jobs of a queue whose backlog loses its oldest: kept for such queues only.
function Lines.crowd(queue)
  local line = Lines.crowds[queue]
  if not line then
    line = Lines.make('crowd', 'crowd:' .. queue, queue)
    Lines.crowds[queue] = line
  end
  return line
end

-- Members that are only put in, and are not looked at in this step: each behind its score.
function Lines.plain(line)
  line.plain = line.plain or {}
  return line.plain
end

function Lines.waiting(ident, queue)
  local lines = Ledger.at(ident).lines
  local line = lines[queue]
  if not line then
    line = Lines.make('wait', 'wait:' .. Text.join(queue, ident), queue, ident)
    lines[queue], Transaction.shelf.known = line, Transaction.shelf.known + 1
  elseif line.turn ~= turn then
    Lines.renew(line)
  end
  return line
end

-- Members were taken, and one may come back: name them.
function Lines.name_taken(line)
  if line.gone == Lines.NONE then line.gone = {} end
  for place = 1, line.taken do line.gone[line.front[place]] = true end
  line.taken = 0
end

function Lines.add(line, member)
  if line.taken > 0 then Lines.name_taken(line) end
  if line.gone[member] then
    line.gone[member], line.less = nil, line.less - 1
  else
    if line.added == Lines.NONE then line.added = {} end
    line.added[member], line.more = true, line.more + 1
  end
  line.head = false
end

function Lines.remove(line, member)
  if line.added[member] then
    line.added[member], line.more = nil, line.more - 1
  elseif line.front[line.taken + 1] == member then
    line.taken, line.less = line.taken + 1, line.less + 1
  else
    if line.gone == Lines.NONE then line.gone = {} end
    line.gone[member], line.less = true, line.less + 1
  end
  line.head = false
end

function Lines.size(line)
  line.stored = line.stored or call('ZCARD', line.key)
  return line.stored + line.more - line.less
end

-- The first members. Cost: those asked for, and those that this step put in or took out. One more is read than asked
-- for: it tells that the line will not be empty.
function Lines.first(line, most)
  if most < 1 then return {} end
  if line.head and line.asked == most then return line.head end
  local stored = line.stored == 0 and {} or call('ZRANGE', line.key, '0', Text.number(most + line.less))
  if #stored == 0 then line.stored = 0 end
  line.front, line.seen = stored, #stored
  local found = stored
  if line.less > 0 or line.more > 0 then
    found = {}
    for place = line.taken + 1, #stored do
      if not line.gone[stored[place]] then found[#found + 1] = stored[place] end
    end
    if line.more > 0 then
      for member in pairs(line.added) do found[#found + 1] = member end
      table.sort(found)
    end
  end
  for extra = #found, most + 1, -1 do found[extra] = nil end
  line.head, line.asked = found, most
  return found
end

-- The first members that do not stand before a text. Cost: as above.
function Lines.first_from(line, from, most)
  if most < 1 then return {} end
  if line.taken > 0 then Lines.name_taken(line) end
  local found = {}
  for _, member in ipairs(call('ZRANGEBYLEX', line.key, '[' .. from, '+', 'LIMIT', '0', Text.number(most + line.less))) do
    if not line.gone[member] then found[#found + 1] = member end
  end
  for member in pairs(line.added) do
    if member >= from then found[#found + 1] = member end
  end
  table.sort(found)
  for extra = #found, most + 1, -1 do found[extra] = nil end
  return found
end

-- The first light ones of a line of suspects.
function Lines.first_light(line, most)
  return Lines.first_from(line, Blame.LIGHT, most)
end

-- The last member; nil of an empty line. Cost: what this step took out.
function Lines.last(line)
  if line.taken > 0 then Lines.name_taken(line) end
  local last = nil
  for _, member in ipairs(call('ZREVRANGE', line.key, '0', Text.number(line.less))) do
    if not line.gone[member] then
      last = member
      break
    end
  end
  for member in pairs(line.added) do
    if not last or member > last then last = member end
  end
  return last
end

-- What begins with a text stands behind it, and before this: ranks follow, which begin with a digit.
function Lines.beyond(head)
  return head .. ':'
end

-- The next members of those that begin with a text, from one on (false: the first). Cost: as above.
function Lines.next_of(line, head, from, most)
  local found, till = {}, '(' .. Lines.beyond(head)
  from = from or head
  for _, member in ipairs(call('ZRANGEBYLEX', line.key, '[' .. from, till, 'LIMIT', '0', Text.number(most + line.less))) do
    if not line.gone[member] then found[#found + 1] = member end
  end
  for member in pairs(line.added) do
    if sub(member, 1, #head) == head and member >= from then found[#found + 1] = member end
  end
  table.sort(found)
  for extra = #found, most + 1, -1 do found[extra] = nil end
  return found
end

-- The same downwards (from false: the last).
function Lines.previous_of(line, head, from, most)
  local found, first = {}, from and '[' .. from or '(' .. Lines.beyond(head)
  local limit = Text.number(most + line.less)
  for _, member in ipairs(call('ZREVRANGEBYLEX', line.key, first, '[' .. head, 'LIMIT', '0', limit)) do
    if not line.gone[member] then found[#found + 1] = member end
  end
  for member in pairs(line.added) do
    if sub(member, 1, #head) == head and (not from or member <= from) then found[#found + 1] = member end
  end
  table.sort(found, function(a, b) return a > b end)
  for extra = #found, most + 1, -1 do found[extra] = nil end
  return found
end

-- The last stored member that begins with a text and is still there. It is hardly ever one that this step took out, so
-- few are asked for at first.
function Lines.last_stored(line, head)
  local till, from, most = '(' .. Lines.beyond(head), '[' .. head, 1
  while true do
    local found = call('ZREVRANGEBYLEX', line.key, till, from, 'LIMIT', '0', Text.number(most))
    for _, member in ipairs(found) do
      if not line.gone[member] then return member end
    end
    if #found < most then return nil end
    most = most * 8
  end
end

-- The last member that begins with a text; nil without any. Cost: what this step put in and took out.
function Lines.last_of(line, head)
  local last = Lines.last_stored(line, head)
  local function look(member)
    if sub(member, 1, #head) == head and (not last or member > last) then last = member end
  end
  for member in pairs(line.added) do look(member) end
  if line.plain then
    for place = 2, #line.plain, 2 do look(line.plain[place]) end
  end
  return last
end

-- ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- The first members are taken off together, the others by name.
function Lines.take_off(line)
  local front, gone, taken = line.front, line.gone, line.taken
  while gone[front[taken + 1]] do
    taken = taken + 1
    gone[front[taken]] = nil
  end
  if taken < line.less then
    local names = {}
    for member in pairs(gone) do names[#names + 1] = member end
    Write.many('ZREM', line.key, names)
  end
  if taken > 0 then call('ZREMRANGEBYRANK', line.key, '0', Text.number(taken - 1)) end
end

function Lines.put_in(line)
  local added, size = {}, 0
  for member in pairs(line.added) do
    added[size + 1], added[size + 2] = Lines.SCORE, member
    size = size + 2
  end
  Write.many('ZADD', line.key, added)
end

Lines.UNLISTED = {ready = true, crowd = true, place = true} -- whether there is one is not written anywhere

function Lines.write()
  for _, line in ipairs(Lines.all) do
    if line.plain then Write.many('ZADD', line.key, line.plain) end
    if line.started then Shares.write_started(line.queue, line) end
    if line.more > 0 or line.less > 0 then
      local stays = Lines.UNLISTED[line.kind] or line.seen > line.less
      local size = not stays and Lines.size(line)
      if line.less > 0 then Lines.take_off(line) end
      if line.more > 0 then Lines.put_in(line) end
      if size and (size == 0) ~= (line.stored == 0) then Lines.index(line, size > 0) end
    end
  end
end

-- Which lines there are: (queue, task) set aside, suspects, queues that wait on a key. Those of ready jobs follow from
-- the counts.
function Lines.index(line, exists)
  if line.kind == 'suspect' then
    call(exists and 'SADD' or 'SREM', base .. 'suspects', line.name)
    return
  end
  if line.kind == 'aside' or line.kind == 'thread' then
    call(exists and 'SADD' or 'SREM', base .. line.kind .. 's', Text.join(line.queue, line.other))
    return
  end
  local ident, queues = line.other, {}
  for _, queue in ipairs(Ledger.stored_queues(ident)) do
    if queue ~= line.queue then queues[#queues + 1] = queue end
  end
  if exists then queues[#queues + 1] = line.queue end
  Ledger.at(ident).queues = queues
  Write.field('waitqs', ident, #queues > 0 and pack(queues))
  Write.score('waited', Book.by_name(ident), #queues > 0 and 0)
end
