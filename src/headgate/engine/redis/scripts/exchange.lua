-- exchange: settle what finished, then claim up to `want` jobs.
-- input {worker, reports, want, queues or false}; a report is {kind, job, attempt, value, retry_in}
-- answers {attempts, refused, cancelling, next_due, more, now, set_aside} and the specs of the attempts, raw.
-- Cost: the reports, the jobs looked at (want + 256 at most) and what is offered; never what waits.

-- The fence: a report counts only for a running attempt of this worker.
local function report_one(worker, report)
  local job = Store.job(report[2])
  if not job or job.life.state ~= 'running' or job.life.worker ~= worker or job.life.attempt ~= report[3] then
    return false
  end
  if report[1] == 'progress' then
    job.progress, Store.dirty[job.id], Store.ended = report[4], job, true
  else
    Moves.settle(job, report)
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

local function all_asides()
  local found, seen = {}, {}
  for _, text in ipairs(call('SMEMBERS', base .. 'asides')) do
    local queue, task = Text.parted(text)
    seen[text], found[#found + 1] = true, {queue, task}
  end
  for _, line in pairs(Lines.all) do
    if line.kind == 'aside' and not seen[Text.join(line.queue, line.other)] then
      found[#found + 1] = {line.queue, line.other}
    end
  end
  return found
end

-- Queues with ready jobs, stored or of this step.
local function all_queues(asides)
  local names = set_of(call('SMEMBERS', base .. 'queues'))
  for _, line in pairs(Lines.all) do
    if line.kind == 'ready' then names[line.queue] = true end
  end
  for _, aside in ipairs(asides) do names[aside[1]] = true end
  return names
end

local function ready_jobs(queues, known, paused)
  return function(most)
    local asides, members = all_asides(), {}
    if not queues then
      local lines = {}
      for queue in pairs(all_queues(asides)) do
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
    local jobs = {}
    for i, member in ipairs(members) do jobs[i] = Store.ranked(Store.claimable(Store.id(member)), member) end
    return jobs
  end
end

local function verb(given, raw)
  local worker, want = given[1], given[3]
  local known = set_of(Step.leased(worker)[1])
  local refused = {}
  for _, report in ipairs(given[2]) do
    if not report_one(worker, report) then refused[#refused + 1] = {report[2], report[3]} end
  end
  Admission.offer()
  Ledger.claimer = worker
  local more = false
  if want > 0 then
    local paused = set_of(call('SMEMBERS', base .. 'paused'))
    more = Admission.claim_many(want, known, ready_jobs(given[4], known, paused))
  end
  Step.finish()
  local attempts = {}
  for i, job in ipairs(Ledger.started) do
    -- A job that came back within this very step was loaded without its spec.
    if not job.told then
      local found = call('HMGET', base .. 'job:' .. job.id, 'spec', 'progress')
      job.told, job.report = found[1], found[2]
    end
    attempts[i] = {job.id, job.life.attempt, job.life.tries, job.life.enqueued_at, job.retry, job.progress or job.report}
    raw[i] = job.told
  end
  local cancelling = call('ZRANGE', base .. 'stop:' .. worker, 0, -1)
  return {attempts, refused, cancelling, Step.next_due(), more, now, Admission.unknown}
end
