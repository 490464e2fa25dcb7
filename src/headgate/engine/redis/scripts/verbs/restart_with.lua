-- restart_with: failed and cancelled jobs arrive anew, due now, with other arguments and keys.
-- input {uses, {id …}, {what Python saw of each job, or false …}}   arguments 3 and on: spec and need of each job
-- answers {{id, done, state} …}, fewer than asked when a job has changed since Python looked at it: the caller looks
-- again and goes on from there. Cost: per job its keys.
local function verb(given)
  local wrong, ids, verdicts = Book.wrong_use(given[1]), given[2], {}
  if wrong then Store.refuse(unpack(wrong)) end
  Store.load(ids)
  for i, id in ipairs(ids) do
    local job = Store.job(id)
    if not Transitions.is_as_seen(job, given[3][i]) then break end
    local done = job and Transitions.RESTARTED[job.state] and not Transitions.has_rival(job)
    if done then
      Store.specs[id], job.need = arguments[1 + 2 * i], Store.need(arguments[2 + 2 * i])
      Transitions.restart(job, job.need.brings)
    end
    verdicts[i] = {id, done or false, job and job.state or false}
  end
  return verdicts
end
