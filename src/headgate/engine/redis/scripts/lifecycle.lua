-- What becomes of a job when something happens to it: lifecycle.py, in Lua. Part of every script.
--
-- A verdict is: state (false: the job comes back), outcome (how the attempt is remembered), error, result, due, counts
-- (whether the attempt is held against the retry policy).

Lifecycle.LOST = "the worker's lease lapsed while it ran this job"

Lifecycle.KEEP = {succeeded = 'keep_succeeded', failed = 'keep_failed', cancelled = 'keep_cancelled'}

-- Microseconds until the next attempt, without jitter: retry is {attempts, delay, backoff, max_delay, jitter}, kept as
-- JSON since hardly any step reads it.
function Lifecycle.wait(retry, tries)
  if retry[2] == 0 then return 0 end
  return math.floor(math.min(retry[4], retry[2] * retry[3] ^ math.min(tries - 1, 64)))
end

-- A cancel that was asked for wins over everything but success.
function Lifecycle.settle(job, kind, value, retry_in)
  if kind == 'succeeded' then return 'succeeded', 'succeeded', false, value end
  if kind == 'stopped' then return 'cancelled', 'cancelled', value end
  local cancelled = job.cancel
  if kind == 'failed' then
    if cancelled then return 'cancelled', 'failed', value end
    if not retry_in then return 'failed', 'failed', value end
    return false, 'failed', value, false, now + retry_in, true
  end
  if cancelled then return 'cancelled', kind end
  if kind == 'snoozed' then return false, 'snoozed', false, false, now + value, false end
  return false, 'released', false, false, math.min(job.due, now), false
end

function Lifecycle.lose(job)
  if job.cancel then return 'cancelled', 'lost', Lifecycle.LOST end
  local retry = cjson.decode(job.need.retry)
  if job.tries >= retry[1] then return 'failed', 'lost', Lifecycle.LOST end
  return false, 'lost', Lifecycle.LOST, false, now + Lifecycle.wait(retry, job.tries), true
end

function Lifecycle.expires_at(job, state)
  return now + (job.need.retention or settings[Lifecycle.KEEP[state]])
end
