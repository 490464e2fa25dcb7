-- What becomes of a job when something happens to it: lifecycle.py, in Lua. Part of every script.
--
-- A verdict has `outcome` (how the attempt is remembered) and either `state` (the job ends) or `due` (it comes back;
-- `counts` says whether the attempt is held against the retry policy).

Lifecycle.LOST = "the worker's lease lapsed while it ran this job"

-- Microseconds until the next attempt, without jitter: retry is {attempts, delay, backoff, max_delay, jitter}, kept as
-- JSON since hardly any step reads it.
function Lifecycle.wait(retry, tries)
  if retry[2] == 0 then return 0 end
  return math.floor(math.min(retry[4], retry[2] * retry[3] ^ math.min(tries - 1, 64)))
end

-- A report is {kind, job, attempt, value, retry_in}. A cancel that was asked for wins over everything but success.
function Lifecycle.settle(job, report)
  local kind, value = report[1], report[4]
  if kind == 'succeeded' then return {state = 'succeeded', outcome = 'succeeded', result = value} end
  if kind == 'stopped' then return {state = 'cancelled', outcome = 'cancelled', error = value} end
  local cancelled = job.cancel
  if kind == 'failed' then
    if cancelled then return {state = 'cancelled', outcome = 'failed', error = value} end
    if not report[5] then return {state = 'failed', outcome = 'failed', error = value} end
    return {due = now + report[5], outcome = 'failed', counts = true, error = value}
  end
  if cancelled then return {state = 'cancelled', outcome = kind} end
  if kind == 'snoozed' then return {due = now + value, outcome = 'snoozed'} end
  return {due = math.min(job.due, now), outcome = 'released'}
end

function Lifecycle.lose(job)
  if job.cancel then return {state = 'cancelled', outcome = 'lost', error = Lifecycle.LOST} end
  local retry = cjson.decode(job.need.retry)
  if job.tries >= retry[1] then return {state = 'failed', outcome = 'lost', error = Lifecycle.LOST} end
  return {due = now + Lifecycle.wait(retry, job.tries), outcome = 'lost', counts = true, error = Lifecycle.LOST}
end

function Lifecycle.expires_at(job, state)
  return now + (job.need.retention or settings['keep_' .. state])
end
