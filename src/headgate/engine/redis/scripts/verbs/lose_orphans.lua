-- lose_orphans: running jobs for which no lease stands are lost.
-- input {id …}   answers {{id, worker} …} of those that were. Cost: those jobs.
local function verb(given)
  local by_worker, lost = {}, {}
  Store.load(given)
  for _, id in ipairs(given) do
    local job = Store.job(id)
    if job and job.state == 'running' and Transitions.is_orphan(job) then
      local jobs = Write.of(by_worker, job.worker)
      jobs[#jobs + 1], lost[#lost + 1] = job, {id, job.worker}
    end
  end
  for _, jobs in pairs(by_worker) do Transitions.lose(jobs, {0, 0, Blame.company(jobs, 0)}) end
  return lost
end
