-- Blame (rule 15): blame.py, in Lua. Part of every script. The Python page explains; this one decides alike.

Blame.APART, Blame.GRAVE, Blame.GUILTY, Blame.KEPT_APART, Blame.SECOND = 2, 3, 5, 10, 1000000

-- How suspect a running job is at some time: one that has run clearly longer than when it was lost is cleared.
function Blame.level(job, at)
  if job.suspicion == 0 or not job.started_at then return job.suspicion end
  local cleared_after = job.lost_after + math.max(Blame.SECOND, math.floor(job.lost_after / 4))
  return at - job.started_at > cleared_after and 0 or job.suspicion
end

-- How many of the jobs that a worker ran were suspects when it died at the latest.
function Blame.company(jobs, died)
  local company = 0
  for _, job in ipairs(jobs) do
    if Blame.level(job, died) > 0 then company = company + 1 end
  end
  return company
end

-- Judge jobs that a lost worker ran; it died between `seen` and `died`, in the company of so many suspects. Writes what
-- is new of each; answers a set of those that fail by it.
function Blame.judge(jobs, seen, died, company)
  local fails = {}
  for _, job in ipairs(jobs) do
    local before, most = Blame.level(job, seen), Lifecycle.losses(job)
    local alone = before > 0 and company == (Blame.level(job, died) > 0 and 1 or 0)
    job.suspicion = (before < Blame.GRAVE or alone) and before + 1 or Blame.GRAVE
    job.lost = before > 0 and job.lost + 1 or 1
    job.lost_after = math.max(before > 0 and job.lost_after or 0, died - (job.started_at or died))
    fails[job] = most == 0 or (alone and job.lost >= most and job.suspicion >= math.min(Blame.GUILTY, most))
  end
  return fails
end

-- What a suspect's place in its line begins with: the gravest are tried first. `LIGHT` is the mark of level 1.
Blame.LIGHT = '2'

function Blame.mark(job)
  return Text.number(Blame.GRAVE - math.min(job.suspicion, Blame.GRAVE))
end

-- Which of the suspects, given gravest first, a worker may take on together beside what it runs, as a set. One that does
-- not fit holds back those behind it.
function Blame.first(suspects, concurrency, running)
  local empty, closed, fit = true, false, {}
  local apart = math.max(1, math.floor(concurrency / Blame.KEPT_APART))
  for _, job in ipairs(running) do
    local level = Blame.level(job, now)
    if level > 0 then empty, closed = false, closed or level >= Blame.GRAVE end
    if level >= Blame.APART then apart = apart - 1 end
  end
  for _, job in ipairs(suspects) do
    local level = job.suspicion
    if closed or (level >= Blame.GRAVE and not empty) or (level == Blame.APART and apart < 1) then break end
    fit[job], empty, closed = true, false, level >= Blame.GRAVE
    if level >= Blame.APART then apart = apart - 1 end
  end
  return fit
end
