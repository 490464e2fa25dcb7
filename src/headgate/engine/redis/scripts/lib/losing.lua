-- What a worker runs, and what becomes of it when the worker is lost or retires. Part of every script.

-- The jobs of these ids that run on this worker. The list of what it runs forgets those that did not run there before
-- this step either: slices of the list would begin with them for ever.
function Transitions.running(ids, worker)
  local jobs = {}
  Store.load(ids)
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    if job and job.state == 'running' and job.worker == worker then
      jobs[#jobs + 1] = job
    elseif not job or job.was ~= 'running' or job.was_worker ~= worker then
      Write.take(Write.runs_of(worker), id)
    end
  end
  return jobs
end

-- All that a worker runs, or the first so many.
function Transitions.running_of(worker, most)
  local last = most and Text.whole(most - 1) or '-1'
  return Transitions.running(call('ZRANGE', base .. 'run:' .. worker, '0', last), worker)
end

-- Attempts of one lost worker end, as `judged`: {when it was last seen, when it died at the latest, how many suspects it
-- ran}. Answers {id, task, error} of those that fail by it.
function Transitions.lose(jobs, judged)
  local fails, failed = Blame.judge(jobs, judged[1], judged[2], judged[3]), {}
  for _, job in ipairs(jobs) do
    Transitions.close(job, Lifecycle.lose(job, fails[job]))
    if job.state == 'failed' then failed[#failed + 1] = {job.id, job.need.task, job.error} end
  end
  return failed
end

-- What blame needs to know of a lost worker. It was last seen when it renewed its lease, which it does three times in it.
function Transitions.judged(worker, lease, length)
  local seen = lease and length and lease - length or 0
  local died = math.min(now, seen + math.floor((length or 0) / 2))
  return {seen, died, Blame.company(Transitions.running_of(worker), died)}
end

-- A worker is gone: its attempts end, then its registration. With `most` at most so many end in this step. The
-- registration then keeps how the worker was judged, since blame compares all that it ran, and its lease has lapsed: its
-- messages are refused, and sweeps go on with it. Answers also whether attempts are left.
function Transitions.lose_worker(worker, most)
  local lease, text = tonumber(call('ZSCORE', base .. 'leases', worker) or nil), call('HGET', base .. 'workers', worker)
  local record = text and parse(text) or {}
  local judged = record[8] or Transitions.judged(worker, lease, record[3])
  local beyond = text and most and call('ZCARD', base .. 'run:' .. worker) > most
  local jobs = Transitions.running_of(worker, beyond and most)
  local failed = Transitions.lose(jobs, judged)
  if not beyond then
    Transitions.forget_worker(worker)
  elseif not record[8] then
    record[8] = judged
    Write.field('workers', worker, pack(record))
    Write.score('leases', worker, math.min(lease or now, now))
  end
  return #jobs, failed, beyond
end

-- A worker stops: its attempts are released, at most so many in this step. Answers whether some are left.
function Transitions.retire(worker, most)
  local beyond = call('ZCARD', base .. 'run:' .. worker) > most
  for _, job in ipairs(Transitions.running_of(worker, most)) do Transitions.release(job) end
  if not beyond then Transitions.forget_worker(worker) end
  return beyond
end

-- Whether no lease stands for a running job.
function Transitions.is_orphan(job)
  return call('HEXISTS', base .. 'workers', job.worker) == 0
    or not call('ZSCORE', base .. 'run:' .. job.worker, job.id)
end

function Transitions.forget_worker(worker)
  Write.field('workers', worker, false)
  Write.field('numbers', worker, false)
  Write.score('leases', worker, false)
end
