-- exchange: settle what finished, then claim up to `want` jobs.
-- input {worker, reports, want, queues or false, number or false, whether suspects above level 1 are wanted, threads or
-- false}; a report is five values: kind, job, attempt, value, retry_in (of one that says what it spent: the limit's name and
-- the units; of a throttled one: the delay, and the limit's name or false)
-- answers {ids of the attempts, refused, cancelling, next_due, more, now, set_aside, parked (name, number …)}, and job
-- and spec of each attempt, raw. Cost: the reports, the jobs looked at (want + 256 at most) and what is offered; never
-- what waits.

-- The fence: a report counts only for a running attempt of this worker.
local function report_one(worker, kind, id, attempt, value, retry_in)
  local job = Store.job(id)
  if not job or job.state ~= 'running' or job.worker ~= worker or job.attempt ~= attempt then return false end
  if kind == 'progress' then
    job.progress, Store.ended = value, true
    Store.touch(job)
  elseif kind == 'spent' then
    Transitions.correct(job, value, retry_in)
  else
    Transitions.settle(job, kind, value, retry_in)
  end
  return true
end

-- Whether a claim counts the threads that jobs of this task take.
local function is_counted(claimer, task)
  return claimer.spare and claimer.threaded[task]
end

-- Whether it reads a line of jobs that were set aside. Those that were so for lack of threads it reads like others where
-- it has some, and where it does not know the task.
local function may_read(claimer, why, task)
  if why == 'aside' and not claimer.known[task] then return false end
  return not is_counted(claimer, task) or claimer.spare > 0
end

-- Lines of a queue that a worker may claim from: ready, and set aside. Of `few` it takes no more than it has threads.
-- Suspects stand in lines of their own.
local function add_lines(lines, few, queue, asides, claimer)
  lines[#lines + 1] = Lines.ready(queue)
  for _, aside in ipairs(asides) do
    local why, of, task = aside[1], aside[2], aside[3]
    if of == queue and may_read(claimer, why, task) then
      local into = is_counted(claimer, task) and few or lines
      into[#into + 1] = Lines.aside(why, queue, task)
    end
  end
end

-- The first members of several lines, each read by `first`, and of others that are given.
local function first_of(lines, most, first, others)
  if #lines == 1 and not others then return first(lines[1], most) end
  local found = {}
  for _, member in ipairs(others or Lines.NONE) do found[#found + 1] = member end
  for _, line in ipairs(lines) do
    for _, member in ipairs(first(line, most)) do found[#found + 1] = member end
  end
  table.sort(found)
  for extra = #found, most + 1, -1 do found[extra] = nil end
  return found
end

local function joined(some, others)
  for _, value in ipairs(others or Lines.NONE) do some[#some + 1] = value end
  return some
end

local function set_of(list)
  local set = {}
  for _, value in ipairs(list) do set[value] = true end
  return set
end

-- Lines set aside, stored or of this step: {why, queue, task}.
local function all_asides(stored)
  local found, seen = {}, {}
  for why, texts in pairs(stored) do
    for _, text in ipairs(texts) do
      local queue, task = Text.parted(text)
      seen[why .. ':' .. text], found[#found + 1] = true, {why, queue, task}
    end
  end
  for key, line in pairs(Lines.asides) do
    if not seen[key] then found[#found + 1] = {line.kind, line.queue, line.other} end
  end
  return found
end

-- What a claim looks through: queues with ready jobs, paused queues, lines set aside, lines of suspects; nil where there
-- is none of it.
local function survey()
  local queues, paused, suspects = base .. 'queues', base .. 'paused', base .. 'suspects'
  local count = call('EXISTS', queues, paused, suspects, base .. 'asides', base .. 'threads')
  if count == 0 then return nil end
  local found = {queues = call('SMEMBERS', queues), paused = Lines.NONE, asides = Lines.NONE, suspects = Lines.NONE}
  if count > 1 or #found.queues == 0 then
    found.paused, found.suspects = set_of(call('SMEMBERS', paused)), call('SMEMBERS', suspects)
    found.asides = {aside = call('SMEMBERS', base .. 'asides'), thread = call('SMEMBERS', base .. 'threads')}
  end
  return found
end

-- Queues with ready jobs, stored or of this step.
local function all_queues(stored, asides)
  local names = set_of(stored)
  for queue in pairs(Lines.readies) do names[queue] = true end
  for _, aside in ipairs(asides) do names[aside[2]] = true end
  for _, line in pairs(Lines.suspected) do names[line.queue] = true end
  return names
end

-- Queues that are read as one line, in the order in which they are read.
local function groups_of(queues, asides, found)
  if not queues then
    local names = {}
    for queue in pairs(all_queues(found.queues, asides)) do
      if not found.paused[queue] then names[#names + 1] = queue end
    end
    return {names}
  end
  local groups, seen = {}, {}
  for _, queue in ipairs(queues) do
    if not seen[queue] and not found.paused[queue] then groups[#groups + 1] = {queue} end
    seen[queue] = true
  end
  return groups
end

-- Lines of suspects of some queues that the worker may claim from.
local function suspect_lines(names, stored, claimer)
  local lines, mine, seen = {}, set_of(names), {}
  local function add(line)
    if mine[line.queue] and (not line.why or may_read(claimer, line.why, line.other)) then lines[#lines + 1] = line end
  end
  for _, name in ipairs(stored) do
    seen[name] = true
    local mark, rest = sub(name, 1, 1), sub(name, 2)
    if mark == 'r' then
      add(Lines.suspects(rest, false))
    else
      local queue, task = Text.parted(rest)
      add(Lines.suspects(queue, mark == 'a' and 'aside' or 'thread', task))
    end
  end
  for name, line in pairs(Lines.suspected) do
    if not seen[name] then add(line) end
  end
  return lines
end

-- What the worker runs now, in this step.
local function running(worker)
  local jobs, seen = Transitions.running_of(worker), {}
  for _, job in ipairs(jobs) do seen[job] = true end
  for _, job in ipairs(Ledger.started) do
    if not seen[job] then jobs[#jobs + 1] = job end
  end
  return jobs
end

-- The first suspects as {job, number of its group}, gravest first, then group by group; `heavy`: not only light ones.
local function suspects_in(groups, most, claimer, stored, heavy)
  local found, first = {}, heavy and Lines.first or Lines.first_light
  for number, names in ipairs(groups) do
    local members, ranks = first_of(suspect_lines(names, stored, claimer), most, first), {}
    for i, member in ipairs(members) do ranks[i] = sub(member, 2) end
    for i, job in ipairs(Store.ranked(ranks)) do
      found[#found + 1] = {job = job, group = number, mark = sub(members[i], 1, 1), place = #found}
    end
  end
  table.sort(found, function(a, b)
    if a.mark ~= b.mark then return a.mark < b.mark end
    return a.place < b.place
  end)
  return found
end

-- Which suspects are claimed now: as far as the worker has room for them, and all that it cannot run, which will be set
-- aside. Answers the grave ones, to be tried before anything else, and the ranks of the others by group.
-- Cost: what the worker runs and what it wants, where there are ready suspects; else nothing.
local function first_suspects(groups, most, worker, record, stored, heavy)
  if #stored == 0 and next(Lines.suspected) == nil then return Lines.NONE, Lines.NONE end
  local all, mine, grave, light = suspects_in(groups, most, record, stored, heavy), {}, {}, {}
  for _, one in ipairs(all) do
    one.runs = may_read(record, 'aside', one.job.need.task)
    if one.runs then mine[#mine + 1] = one.job end
  end
  local fit = #mine > 0 and Blame.first(mine, record[6], running(worker))
  for _, one in ipairs(all) do
    local job = one.job
    if not one.runs or fit[job] then
      if job.suspicion >= Blame.GRAVE then
        grave[#grave + 1] = job
      else
        local ranks = Write.of(light, one.group)
        ranks[#ranks + 1] = job.rank
      end
    end
  end
  return grave, light
end

-- Strike members out of lines if their jobs are not ready: their records could not be read. `lines` by group.
local function strike(members, lines)
  for _, member in ipairs(members) do
    local job = Store.job(sub(member, 47))
    if not job or job.state ~= 'ready' then
      for _, of_group in ipairs(lines) do Store.strike_ready(of_group, member) end
    end
  end
end

-- The next ready jobs: grave suspects, then queue after queue as given, or all queues as one.
local function ready_jobs(queues, worker, record, found, heavy)
  return function(most)
    local asides, members = all_asides(found.asides), {}
    local groups = groups_of(queues, asides, found)
    local grave, light = first_suspects(groups, most, worker, record, found.suspects, heavy)
    local left, all_lines = most - #grave, {}
    for number, names in ipairs(groups) do
      if #members >= left then break end
      local lines, few, others = {}, {}, light[number]
      for _, queue in ipairs(names) do add_lines(lines, few, queue, asides, record) end
      if #few > 0 then others = joined(first_of(few, math.min(left - #members, record.spare), Lines.first), others) end
      all_lines[number] = #few > 0 and joined(few, lines) or lines
      local first = first_of(lines, left - #members, Lines.first, others)
      if #groups == 1 then
        members = first
      else
        for _, member in ipairs(first) do members[#members + 1] = member end
      end
    end
    local able = Store.ranked(members)
    if #able < #members then strike(members, all_lines) end
    if #grave == 0 then return able end
    local jobs = {}
    for i = 1, math.min(#grave, most) do jobs[i] = grave[i] end
    for _, job in ipairs(able) do jobs[#jobs + 1] = job end
    return jobs
  end
end

local function is_anybody_ready()
  for _, line in pairs(Lines.readies) do
    if line.more > 0 then return true end
  end
  return next(Lines.asides) ~= nil or next(Lines.suspected) ~= nil
end

local function claim(want, queues, worker, record, found, heavy)
  local left = want - #Ledger.started
  if left < 1 or not (found or is_anybody_ready()) then return false end
  found = found or {queues = Lines.NONE, paused = Lines.NONE, asides = Lines.NONE, suspects = Lines.NONE}
  return Admission.claim_many(left, record, ready_jobs(queues, worker, record, found, heavy))
end

local function put_in_order(jobs)
  for place = 2, #jobs do
    if jobs[place].rank < jobs[place - 1].rank then
      table.sort(jobs, function(a, b) return a.rank < b.rank end)
      return
    end
  end
end

-- `claims` is what jobs that get a freed slot are claimed with, if no other job is ready.
local function settle(worker, reports, claims)
  local ids, refused = {}, {}
  for i = 2, #reports, 5 do ids[#ids + 1] = reports[i] end
  Store.load(ids)
  for i = 1, #reports, 5 do
    local id, attempt = reports[i + 1], reports[i + 2]
    if not report_one(worker, reports[i], id, attempt, reports[i + 3], reports[i + 4]) then
      refused[#refused + 1] = {id, attempt}
    end
  end
  Admission.offer(claims)
  put_in_order(Ledger.started)
  return refused
end

-- What the worker needs to run what it claimed: behind each other, the job and its spec.
local function tell(started, raw)
  local ids, keys, start = {}, {}, base .. 'spec:'
  for i, job in ipairs(started) do ids[i], keys[i] = job.id, start .. job.id end
  for first = 1, #keys, 1000 do
    for i, spec in ipairs(call('MGET', unpack(keys, first, math.min(first + 999, #keys)))) do
      raw[#raw + 1], raw[#raw + 2] = started[first + i - 1].record, spec
    end
  end
  return ids
end

local function parked()
  local flat = {}
  for name, count in pairs(Admission.parked) do flat[#flat + 1], flat[#flat + 2] = name, count end
  return flat
end

local function verb(given, raw)
  local worker, reports, want, queues, heavy = given[1], given[2], given[3], given[4], given[6]
  local record = Transaction.in_turn(worker, given[5])
  record.spare = given[7]
  local found = want > 0 and survey()
  Ledger.claimer, Ledger.none_ready = worker, found == nil
  local claims = want > 0 and not found and {want = want, claimer = record, served = queues and set_of(queues)}
  local refused = settle(worker, reports, claims)
  local more = want > 0 and claim(want, queues, worker, record, found, heavy)
  Transaction.finish()
  local ids = tell(Ledger.started, raw)
  local next_due, stops = Transaction.next_due(base .. 'stop:' .. worker)
  local cancelling = stops and call('ZRANGE', base .. 'stop:' .. worker, '0', '-1') or {}
  return {ids, refused, cancelling, next_due, more, now, Admission.unknown, parked()}
end
