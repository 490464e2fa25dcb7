-- exchange: settle what finished, then claim up to `want` jobs.
-- input {worker, reports, want, queues or false}; a report is five values: kind, job, attempt, value, retry_in
-- answers {ids of the attempts, refused, cancelling, next_due, more, now, set_aside}, and job and spec of each
-- attempt, raw. Cost: the reports, the jobs looked at (want + 256 at most) and what is offered; never what waits.

-- The fence: a report counts only for a running attempt of this worker.
local function report_one(worker, kind, id, attempt, value, retry_in)
  local job = Store.job(id)
  if not job or job.state ~= 'running' or job.worker ~= worker or job.attempt ~= attempt then return false end
  if kind == 'progress' then
    job.progress, Store.ended = value, true
    Store.touch(job)
  else
    Moves.settle(job, kind, value, retry_in)
  end
  return true
end

-- Lines of a queue that a worker may claim from: ready, and set aside by workers that did not know the task.
local function add_lines(lines, queue, asides, known)
  lines[#lines + 1] = Lines.ready(queue)
  for _, aside in ipairs(asides) do
    if aside[1] == queue and known[aside[2]] then lines[#lines + 1] = Lines.aside(queue, aside[2]) end
  end
end

local function first_of(lines, most)
  if #lines == 1 then return Lines.first(lines[1], most) end
  local found = {}
  for _, line in ipairs(lines) do
    for _, member in ipairs(Lines.first(line, most)) do found[#found + 1] = member end
  end
  table.sort(found)
  for extra = #found, most + 1, -1 do found[extra] = nil end
  return found
end

local function set_of(list)
  local set = {}
  for _, value in ipairs(list) do set[value] = true end
  return set
end

local function all_asides(stored)
  local found, seen = {}, {}
  for _, text in ipairs(stored) do
    local queue, task = Text.parted(text)
    seen[text], found[#found + 1] = true, {queue, task}
  end
  for text, line in pairs(Lines.asides) do
    if not seen[text] then found[#found + 1] = {line.queue, line.other} end
  end
  return found
end

-- What a claim looks through: queues with ready jobs, paused queues, lines set aside; nil where there is none of it.
local function survey()
  local queues, paused, asides = base .. 'queues', base .. 'paused', base .. 'asides'
  local count = call('EXISTS', queues, paused, asides)
  if count == 0 then return nil end
  local found = {queues = call('SMEMBERS', queues), paused = {}, asides = {}}
  if count > 1 or #found.queues == 0 then
    found.paused, found.asides = set_of(call('SMEMBERS', paused)), call('SMEMBERS', asides)
  end
  return found
end

-- Queues with ready jobs, stored or of this step.
local function all_queues(stored, asides)
  local names = set_of(stored)
  for queue in pairs(Lines.readies) do names[queue] = true end
  for _, aside in ipairs(asides) do names[aside[1]] = true end
  return names
end

local function ready_jobs(queues, known, found)
  local paused = found.paused
  return function(most)
    local asides, members = all_asides(found.asides), {}
    if not queues then
      local lines = {}
      for queue in pairs(all_queues(found.queues, asides)) do
        if not paused[queue] then add_lines(lines, queue, asides, known) end
      end
      members = first_of(lines, most)
    else
      local seen = {}
      for _, queue in ipairs(queues) do
        if not seen[queue] and not paused[queue] and #members < most then
          local lines = {}
          add_lines(lines, queue, asides, known)
          for _, member in ipairs(first_of(lines, most - #members)) do members[#members + 1] = member end
        end
        seen[queue] = true
      end
    end
    return Store.ranked(members)
  end
end

local function is_anybody_ready()
  for _, line in pairs(Lines.readies) do
    if line.more > 0 then return true end
  end
  return next(Lines.asides) ~= nil
end

local function claim(want, queues, known, found)
  local left = want - #Ledger.started
  if left < 1 or not (found or is_anybody_ready()) then return false end
  return Admission.claim_many(left, known, ready_jobs(queues, known, found or {queues = {}, paused = {}, asides = {}}))
end

local function put_in_order(jobs)
  for place = 2, #jobs do
    if jobs[place].rank < jobs[place - 1].rank then
      table.sort(jobs, function(a, b) return a.rank < b.rank end)
      return
    end
  end
end

-- `claims` is what those who get a freed slot are claimed with, if nobody else is ready.
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

local function verb(given, raw)
  local worker, reports, want, queues = given[1], given[2], given[3], given[4]
  local known = Step.leased(worker).known
  local found = want > 0 and survey()
  Ledger.claimer, Ledger.none_ready = worker, found == nil
  local claims = want > 0 and not found and {want = want, known = known, served = queues and set_of(queues)}
  local refused = settle(worker, reports, claims)
  local more = want > 0 and claim(want, queues, known, found)
  Step.finish()
  local ids = tell(Ledger.started, raw)
  local next_due, stops = Step.next_due(base .. 'stop:' .. worker)
  local cancelling = stops and call('ZRANGE', base .. 'stop:' .. worker, '0', '-1') or {}
  return {ids, refused, cancelling, next_due, more, now, Admission.unknown}
end
