-- What becomes of a job when something happens to it: lifecycle.py, in Lua. Part of every script.
--
-- A verdict is: state (false: the job comes back), outcome (how the attempt is remembered), error, result, due, counts
-- (whether the attempt is held against the retry policy).

Lifecycle.LOST = 'the worker was lost while it ran this job'
Lifecycle.POISON = 'lost %d times with its worker, the last time as the only suspect: it probably kills its process'
Lifecycle.AT_MOST_ONCE = 'lost with its worker, and its policy allows no loss'
Lifecycle.LATEST = 8e15 -- number_range.py: what is put off for longer comes then
Lifecycle.LOSSES = 5 -- of policies that were stored before they had such a number

Lifecycle.KEEP = {succeeded = 'keep_succeeded', failed = 'keep_failed', cancelled = 'keep_cancelled'}

-- A cancel that was asked for wins over everything but success.
function Lifecycle.settle(job, kind, value, retry_in)
  if kind == 'succeeded' then return 'succeeded', 'succeeded', false, value end
  if kind == 'stopped' then return 'cancelled', 'cancelled', value end
  local cancelled = job.cancel
  if kind == 'failed' then
    if cancelled then return 'cancelled', 'failed', value end
    if not retry_in then return 'failed', 'failed', value end
    return false, 'failed', value, false, math.min(now + retry_in, Lifecycle.LATEST), true
  end
  if cancelled then return 'cancelled', kind end
  if kind == 'snoozed' then return false, 'snoozed', false, false, math.min(now + value, Lifecycle.LATEST), false end
  return false, kind, false, false, math.min(job.due, now), false -- released, throttled
end

-- The worker is gone. The attempt does not count; the job takes its old place again, unless it is to blame (`fails`).
function Lifecycle.lose(job, fails)
  if job.cancel then return 'cancelled', 'lost', Lifecycle.LOST end
  if fails then
    local losses = Lifecycle.losses(job)
    return 'failed', 'lost', losses > 0 and format(Lifecycle.POISON, job.lost) or Lifecycle.AT_MOST_ONCE
  end
  return false, 'lost', Lifecycle.LOST, false, math.min(job.due, now), false
end

-- How often the job may be lost: the sixth of its policy, which is kept as JSON since hardly any step reads it.
function Lifecycle.losses(job)
  return cjson.decode(job.need.retry)[6] or Lifecycle.LOSSES
end

function Lifecycle.expires_at(job, state)
  return now + (job.need.retention or settings[Lifecycle.KEEP[state]])
end
