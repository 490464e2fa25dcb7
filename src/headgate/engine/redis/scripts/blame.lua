-- Blame (rule 15): blame.py, in Lua. Part of every script. The Python page explains; this one decides alike.

Blame.KEPT_APART, Blame.SECOND = 10, 1000000

-- How suspect a running job is at some time: one that has run clearly longer than when it was lost is cleared.
function Blame.level(job, at)
  if job.suspicion == 0 or not job.started_at then return job.suspicion end
  local cleared_after = job.lost_after + math.max(Blame.SECOND, math.floor(job.lost_after / 4))
  return at - job.started_at > cleared_after and 0 or job.suspicion
end

-- Judge all jobs that a lost worker ran, together; it was last seen alive at `seen`. Writes what is new of each; answers
-- a set of those that fail by it.
function Blame.judge(jobs, seen)
  local levels, top, at_top, fails = {}, 0, 0, {}
  for i, job in ipairs(jobs) do
    levels[i] = Blame.level(job, seen)
    if levels[i] > top then top, at_top = levels[i], 0 end
    if levels[i] == top then at_top = at_top + 1 end
  end
  for i, job in ipairs(jobs) do
    local blamed, losses = levels[i] == top and 1 or 0, Lifecycle.losses(job)
    job.suspicion, job.lost = levels[i] + blamed, job.lost + blamed
    job.lost_after = math.max(job.lost_after, now - (job.started_at or now))
    fails[job] = losses == 0 or (blamed == 1 and top > 0 and at_top == 1 and job.lost >= losses)
  end
  return fails
end

-- Which of the suspects, in their order, a worker may take on together, as a set: a tenth of its places at level 1, or a
-- single one above it. One that does not fit holds back those behind it.
function Blame.first(suspects, concurrency, running)
  local beside, grave, fit, count = 0, false, {}, 0
  for _, job in ipairs(running) do
    local level = Blame.level(job, now)
    if level > 0 then beside, grave = beside + 1, grave or level > 1 end
  end
  local left = grave and 0 or math.max(1, math.floor(concurrency / Blame.KEPT_APART)) - beside
  for _, job in ipairs(suspects) do
    if count >= left or (job.suspicion > 1 and (count > 0 or beside > 0)) then break end
    fit[job], count = true, count + 1
    if job.suspicion > 1 then break end
  end
  return fit
end
