-- Fair shares (rule 17): shares.py, in Lua. Part of every script. The Python page explains; this one decides alike.
--
-- A place is a priority (2 digits) and a queue: shares are compared within it. `virtual` keeps how far each place has
-- come, `sharing` how many jobs with a tag are ready, waiting or running there; `places:SHARE` where a share has ready
-- and waiting jobs, `share:` these in the order of their tags.

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

-- The largest tag that has started at a place.
function Shares.virtual_time(place)
  local virtual = Shares.virtual[place]
  if not virtual then
    virtual = tonumber(call('HGET', base .. 'virtual', place) or 0)
    Shares.virtual[place] = virtual
  end
  return virtual
end

function Shares.advance(place, tag)
  if tag > Shares.virtual_time(place) then
    Shares.virtual[place] = tag
    Write.field('virtual', place, Text.whole(tag))
  end
end

-- The largest tag among the ready and waiting jobs of a share at a place; 0 without any.
function Shares.last_tag(share, place)
  local last = Lines.last(Lines.share(share, place))
  return last and tonumber(sub(last, 3, 18)) or 0
end

-- A job that becomes due gets its place among the shares of its queue.
function Shares.tag(job)
  local need = job.need
  local virtual, last = Shares.virtual_time(need.place), Shares.last_tag(need.share, need.place)
  local mean = need.by_time and Shares.mean(need.queue, need.share)
  local step = mean and mean[3] or Shares.step_of(Book.weight(need.share))
  job.tag, job.rank = math.min(math.max(virtual, last) + step, Shares.LARGEST), false
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
  Shares.list(share)
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

function Shares.places(share)
  local places, seen = call('SMEMBERS', base .. 'places:' .. share), {}
  for _, place in ipairs(places) do seen[place] = true end
  for _, line in pairs(Lines.shares) do
    if line.other == share and line.more > 0 and not seen[line.queue] then
      seen[line.queue], places[#places + 1] = true, line.queue
    end
  end
  table.sort(places)
  return places
end

-- Whether this step has brought a job of any share to a place.
function Shares.has_come(place)
  for _, line in pairs(Lines.shares) do
    if line.queue == place and line.more > 0 then return true end
  end
  return false
end

-- The name of a share stands in the list of all while it has a weight, or jobs that are ready or waiting.
function Shares.list(share)
  Shares.listed[share] = true
end

-- Its line at a place has become empty, or is so no more.
function Shares.index(share, place, exists)
  call(exists and 'SADD' or 'SREM', base .. 'places:' .. share, place)
  Shares.list(share)
end

-- A job with a tag has come to a place, or has left it.
function Shares.count(place, by)
  Shares.counts[place] = (Shares.counts[place] or 0) + by
end

function Shares.COUNTED(state)
  return state == 'ready' or state == 'waiting' or state == 'running'
end

-- Written when all else is: which shares there are, and places without jobs of any, whose virtual time a sweep forgets.
function Shares.write()
  for place, by in pairs(Shares.counts) do
    if by ~= 0 then
      local count = call('HINCRBY', base .. 'sharing', place, Text.whole(by))
      if count == 0 then Shares.is_quiet(place) elseif count == by then call('ZREM', base .. 'quiet', place) end
    end
  end
  for share in pairs(Shares.listed) do
    local there = call('EXISTS', base .. 'places:' .. share) == 1 or call('HEXISTS', base .. 'weights', share) == 1
      or call('HEXISTS', base .. 'declared', share) == 1
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

-- What is left of it: per line a list of {old, new, virtual or false, the rank to go on from or false}. Tags that shrink
-- are moved from the first on, others from the last, so that none is met twice.
function Shares.retag(queue, share, old, new)
  if old == new then return end
  for _, place in ipairs(Shares.places(share)) do
    if sub(place, 3) == queue then
      local name = Text.join(share, place)
      local rows = Shares.retags_of(name)
      rows[#rows + 1] = {old, new, false, false}
      if #rows == 1 then Shares.go_on_with(name) end
    end
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
function Shares.slice(line, row)
  local most = Shares.SLICE + 1
  if row[2] < row[1] then return Lines.first_from(line, row[4] or '', most) end
  return Lines.before(line, row[4], most)
end

function Shares.go_on_with(name)
  local rows = Shares.retags_of(name)
  local row, share, place = rows[1], Text.parted(name)
  local line = Lines.share(share, place)
  row[3] = row[3] or Shares.virtual_time(place)
  local members = Shares.slice(line, row)
  local ids = {}
  for i = 1, math.min(#members, Shares.SLICE) do ids[i] = sub(members[i], 47) end
  Store.load(ids)
  for i, id in ipairs(ids) do
    local job = Store.job(id)
    if job and Full.PENDING[job.state] and members[i] == Store.rank(job) then
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
