-- Fair shares (rule 17): shares.py, in Lua. Part of every script. The Python page explains; this one decides alike.
--
-- A place is a priority (2 digits) and a queue: shares are compared within it. `virtual` keeps how far each place has
-- come, `sharing` how many jobs with a tag are ready, waiting or running there; `share:PLACE` has the ready and waiting
-- ones, share by share in the order of their tags. Nothing else is written of a share that jobs come to or leave.

Shares.SCALE, Shares.SECOND, Shares.LEARNT, Shares.KEEP_MEANS = 10000, 1000000, 8, 3600 * 1000000
Shares.LARGEST = 9e15 -- of tags: they have sixteen digits
Shares.SLICE = 100 -- jobs that are tagged anew in one step

-- The nearest whole number, of two the even one.
function Shares.round(number)
  local below = math.floor(number)
  local rest = number - below
  if rest > 0.5 or (rest == 0.5 and below % 2 == 1) then return below + 1 end
  return below
end

-- How far apart the tags of a share lie; `mean` where it is charged by time.
function Shares.step_of(weight, mean)
  local cost = mean and mean / Shares.SECOND or 1
  return math.max(1, Shares.round(Shares.SCALE * cost / weight))
end

-- The largest tag that has started at a place, before this step.
function Shares.stored_virtual_time(place)
  local virtual = Shares.virtual[place]
  if not virtual then
    virtual = tonumber(call('HGET', base .. 'virtual', place) or 0)
    Shares.virtual[place] = virtual
  end
  return virtual
end

-- And by now.
function Shares.virtual_time(place)
  local line = Lines.places[place]
  return math.max(Shares.stored_virtual_time(place), line and line.started and line.started.last or 0)
end

-- A priority and a queue as the name of a place.
function Shares.place(priority, queue)
  return (priority < 10 and '0' or '') .. Text.number(priority) .. queue
end

-- What members of a place's line that are of one share begin with, so that they stand in the order of the names.
function Shares.head(share)
  if string.find(share, '\0', 1, true) then share = string.gsub(share, '%z', '\0\127') end
  return share .. '\0'
end

-- The share of such a member.
function Shares.of_member(member)
  local zero = string.find(member, '\0', 1, true)
  while string.byte(member, zero + 1) == 127 do zero = string.find(member, '\0', zero + 1, true) end
  return (string.gsub(sub(member, 1, zero - 1), '%z\127', '\0'))
end

-- The last tags of the shares at a place, as far as this step knows them: false where it has put jobs of one in and does
-- not know the last; nil where it has put none in.
function Shares.lasts_at(place)
  local lasts = Shares.lasts[place]
  if not lasts then
    lasts = {}
    Shares.lasts[place] = lasts
  end
  return lasts
end

-- The largest tag among the ready and waiting jobs of a share at a place; 0 without any. What this step has started may
-- count: the virtual time is not behind it.
function Shares.last_tag(need)
  local lasts = Shares.lasts_at(need.place)
  local last = lasts[need.share]
  if not last then
    local line, head = Lines.place(need.place), need.share_head
    local member = (last == nil and Lines.last_stored or Lines.last_of)(line, head)
    last = member and tonumber(sub(member, #head + 3, #head + 18)) or 0
    lasts[need.share] = last
  end
  return last
end

-- A job with a tag comes to the line of its place.
function Shares.enter(job)
  local need, tag = job.need, job.tag
  local lasts = Shares.lasts_at(need.place)
  local last = lasts[need.share]
  if last == nil or last and tag > last then lasts[need.share] = last ~= nil and tag end
  Lines.add(Lines.place(need.place), Shares.member(job))
end

-- It leaves it, but not because it starts.
function Shares.leave(job)
  local need = job.need
  local lasts = Shares.lasts_at(need.place)
  local last = lasts[need.share]
  if last and job.tag >= last then lasts[need.share] = false end
  Lines.remove(Lines.place(need.place), Shares.member(job))
end

-- It starts: its place has come as far as its tag. What starts does not come back in this step, so it is taken out of
-- the line when that is written; until then reads find it.
function Shares.start(job)
  local need, tag = job.need, job.tag
  local line = Lines.places[need.place] or Lines.place(need.place)
  local started = line.started
  if not started then
    started = {count = 0, last = 0, head = need.share_head, in_order = true}
    line.started = started
  end
  if tag > started.last then started.last = tag else started.in_order = false end
  if need.share_head ~= started.head then started.in_order = false end
  local member = line.more > 0 and need.share_head .. Store.rank(job)
  if member and line.added[member] then
    Lines.remove(line, member)
  else
    local count = started.count + 1
    started[count], started.count = job, count
  end
end

-- What has started goes out of the line, and the virtual time on. Jobs of one share, in order, are all there is between
-- the first and the last if they are as many: these go together.
function Shares.write_started(place, line)
  local started, names = line.started, {}
  local count = started.count
  if started.last > Shares.stored_virtual_time(place) then
    call('HSET', base .. 'virtual', place, Text.whole(started.last))
  end
  if started.in_order and count > 3 then
    local first, last = Shares.member(started[1]), Shares.member(started[count])
    local from = call('ZRANK', line.key, first)
    if from and call('ZLEXCOUNT', line.key, '[' .. first, '[' .. last) == count then
      call('ZREMRANGEBYRANK', line.key, Text.number(from), Text.number(from + count - 1))
      return
    end
  end
  for number = 1, count do names[number] = Shares.member(started[number]) end
  Write.many('ZREM', line.key, names)
end

-- A job in the line of its place.
function Shares.member(job)
  return job.need.share_head .. Store.rank(job)
end

function Shares.step(need)
  local mean = need.by_time and Shares.mean(need.queue, need.share)
  return mean and mean[3] or Shares.step_of(Book.weight(need.share))
end

function Shares.next_tag(virtual, last, step)
  return math.min(math.max(virtual, last) + step, Shares.LARGEST)
end

-- A job that becomes due gets its place among the shares of its queue.
function Shares.tag(job)
  local need = job.need
  local virtual, last = Shares.virtual_time(need.place), Shares.last_tag(need)
  job.tag, job.rank = Shares.next_tag(virtual, last, Shares.step(need)), false
  Store.touch(job)
end

-- ── how long attempts of a share take: {us, at, step} ─────────────────────────────────────────────────────────────

function Shares.mean(queue, share)
  local field = Text.join(queue, share)
  if Shares.means[field] == nil then
    local text = call('HGET', base .. 'means', field)
    Shares.means[field] = text and parse(text) or false
  end
  return Shares.means[field]
end

function Shares.put_mean(queue, share, mean)
  local field = Text.join(queue, share)
  Shares.means[field] = mean
  Write.field('means', field, pack(mean))
  Write.score('learnt', field, mean[2])
end

-- What an attempt took is what its share is charged for; what waits is tagged anew where that differs much.
function Shares.learn_time(job)
  local queue, share = job.need.queue, job.need.share
  local before, took, weight = Shares.mean(queue, share), math.max(now - job.started_at, 0), Book.weight(share)
  local old = before and before[3] or Shares.step_of(weight)
  local us = before and before[1] + math.floor((took - before[1]) / Shares.LEARNT) or took
  local new, name = Shares.step_of(weight, us), Text.join(share, job.need.place)
  if #Shares.retags_of(name) > 0 then Shares.go_on_with(name) end
  if math.abs(new - old) * 4 > old then
    Shares.retag(queue, share, old, new)
  else
    new = old
  end
  Shares.put_mean(queue, share, {us, now, new})
end

-- ── weights ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- A weight, written by `write`, is in force for what waits, too.
function Shares.weight_changes(share, write)
  local old = Book.weight(share)
  write()
  local new, seen = Book.weight(share), {}
  Shares.listed[share] = true
  if old == new then return end
  for _, place in ipairs(Shares.places(share)) do
    local queue = sub(place, 3)
    if not seen[queue] then
      seen[queue] = true
      local mean = Shares.mean(queue, share)
      local before, step = mean and mean[3] or Shares.step_of(old), Shares.step_of(new, mean and mean[1])
      Shares.retag(queue, share, before, step)
      if mean then Shares.put_mean(queue, share, {mean[1], mean[2], step}) end
    end
  end
end

-- Rows are {share, weight, by, at, why, until or false}.
function Shares.declare(row)
  local share = row[1]
  local known = call('HGET', base .. 'declared', share)
  if known and tonumber(parse(known)[2]) == tonumber(row[2]) then return end
  Shares.weight_changes(share, function()
    local said = call('HGET', base .. 'weights', share)
    Book.change('declared', row)
    Book.weights[share] = tonumber(said and parse(said)[2] or row[2])
    Write.field('declared', share, pack(row))
  end)
end

-- An operator's word comes into force, or is taken back (false).
function Shares.set(share, row)
  Shares.weight_changes(share, function()
    local declared = call('HGET', base .. 'declared', share)
    Book.change('weight', share, row)
    Book.weights[share] = tonumber(row and row[2] or declared and parse(declared)[2] or 1)
    Write.field('weights', share, row and pack(row))
    Write.score('weightends', share, row and row[6])
  end)
end

-- ── places and lines ──────────────────────────────────────────────────────────────────────────────────────────────

-- The places at which a share has ready or waiting jobs, of one queue where it is named. Cost: all places with jobs of
-- any share.
function Shares.places(share, queue)
  local places, all = {}, {}
  for _, place in ipairs(call('HKEYS', base .. 'sharing')) do all[place] = true end
  for place in pairs(Lines.places) do all[place] = true end
  for place in pairs(all) do
    local mine = not queue or sub(place, 3) == queue
    if mine and Lines.last_of(Lines.place(place), Shares.head(share)) then places[#places + 1] = place end
  end
  table.sort(places)
  return places
end

-- Whether this step has brought a job of any share to a place.
function Shares.has_come(place)
  local line = Lines.places[place]
  return line and (line.more > 0 or line.plain)
end

-- A job with a tag has come to a place, or has left it.
function Shares.count(place, by)
  Shares.counts[place] = (Shares.counts[place] or 0) + by
end

function Shares.count_move(place, was, state)
  local before = was == 'running' or was == 'ready' or was == 'waiting'
  local after = state == 'running' or state == 'ready' or state == 'waiting'
  if before ~= after then Shares.count(place, after and 1 or -1) end
end

-- Written when all else is: which shares have a weight, and places without jobs of any share, whose virtual time a sweep
-- forgets.
function Shares.write()
  for place, by in pairs(Shares.counts) do
    if by ~= 0 then
      local count = call('HINCRBY', base .. 'sharing', place, Text.whole(by))
      if count == 0 then Shares.is_quiet(place) elseif count == by then call('ZREM', base .. 'quiet', place) end
    end
  end
  for share in pairs(Shares.listed) do
    local there = call('HEXISTS', base .. 'weights', share) == 1 or call('HEXISTS', base .. 'declared', share) == 1
    if there then call('ZADD', base .. 'shares', '0', share) else call('ZREM', base .. 'shares', share) end
  end
  for name, rows in pairs(Shares.retags) do
    if #rows > 0 then call('HSET', base .. 'retags', name, pack(rows)) else call('HDEL', base .. 'retags', name) end
  end
end

function Shares.is_quiet(place)
  call('HDEL', base .. 'sharing', place)
  if Shares.forgetting then
    call('HDEL', base .. 'virtual', place)
  else
    call('ZADD', base .. 'quiet', now_text, place)
  end
end

-- ── tagging anew ──────────────────────────────────────────────────────────────────────────────────────────────────

-- Where a waiting job's tag goes when its share's step changes: the part of the way that is still before it. In parts, to
-- stay below 2^53.
function Shares.moved(tag, virtual, old, new)
  if tag <= virtual then return tag end
  local way = tag - virtual
  local rest = math.fmod(way, old)
  return math.min(virtual + (way - rest) / old * new + math.floor(rest * new / old), Shares.LARGEST)
end

-- What is left of it: per line a list of {old, new, virtual or false, the member to go on from or false}. Tags that shrink
-- are moved from the first on, others from the last, so that none is met twice.
function Shares.retag(queue, share, old, new)
  if old == new then return end
  for _, place in ipairs(Shares.places(share, queue)) do
    local name = Text.join(share, place)
    local rows = Shares.retags_of(name)
    rows[#rows + 1] = {old, new, false, false}
    if #rows == 1 then Shares.go_on_with(name) end
  end
end

function Shares.retags_of(name)
  if not Shares.retags[name] then
    local text = call('HGET', base .. 'retags', name)
    Shares.retags[name] = text and parse(text) or {}
  end
  return Shares.retags[name]
end

-- The next members of a line to be tagged anew, in the order in which that is done.
function Shares.slice(line, head, row)
  local most = Shares.SLICE + 1
  if row[2] < row[1] then return Lines.next_of(line, head, row[4], most) end
  return Lines.previous_of(line, head, row[4], most)
end

function Shares.go_on_with(name)
  local rows = Shares.retags_of(name)
  local row, share, place = rows[1], Text.parted(name)
  local head = Shares.head(share)
  row[3] = row[3] or Shares.virtual_time(place)
  local members = Shares.slice(Lines.place(place), head, row)
  local ids = {}
  for i = 1, math.min(#members, Shares.SLICE) do ids[i] = sub(members[i], #head + 47) end
  Store.load(ids)
  for i, id in ipairs(ids) do
    local job = Store.job(id)
    if job and Full.PENDING[job.state] and members[i] == head .. Store.rank(job) then
      Store.change(job, {tag = Shares.moved(job.tag, row[3], row[1], row[2])})
    end
  end
  row[4] = members[Shares.SLICE + 1] or row[4]
  if #members <= Shares.SLICE then table.remove(rows, 1) end
end

-- Go on with the lines that are being tagged anew, a slice of one; whether something is left.
function Shares.go_on()
  local name = next(Shares.retags) or call('HSCAN', base .. 'retags', '0', 'COUNT', '1')[2][1]
  if name and #Shares.retags_of(name) > 0 then Shares.go_on_with(name) end
  return Shares.are_left()
end

function Shares.are_left()
  for _, rows in pairs(Shares.retags) do
    if #rows > 0 then return true end
  end
  return call('HLEN', base .. 'retags') > Shares.finished()
end

-- How many stored lines this step has come to the end of.
function Shares.finished()
  local count = 0
  for name, rows in pairs(Shares.retags) do
    if #rows == 0 then count = count + call('HEXISTS', base .. 'retags', name) end
  end
  return count
end
