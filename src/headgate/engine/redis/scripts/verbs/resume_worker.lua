-- resume_worker: take back what the worker runs and does not name, uncounted, and remember its number.
-- input {worker, number, {job, attempt, …}}   answers {{true or false for each pair}, taken_back, cancelling, now}.
-- Cost: what the worker runs.
local function verb(given)
  local worker, known, named, alive, taken = given[1], given[3], {}, {}, 0
  Transaction.in_turn(worker, given[2])
  for i = 1, #known, 2 do
    named[known[i]] = named[known[i]] or {}
    named[known[i]][known[i + 1]] = true
  end
  for _, job in ipairs(Transitions.running_of(worker)) do
    if not (named[job.id] and named[job.id][job.attempt]) then
      Transitions.release(job)
      taken = taken + 1
    end
  end
  for i = 1, #known, 2 do
    local job = Store.job(known[i])
    alive[#alive + 1] = job and job.state == 'running' and job.worker == worker and job.attempt == known[i + 1] or false
  end
  Transaction.finish()
  return {alive, taken, call('ZRANGE', base .. 'stop:' .. worker, '0', '-1'), now}
end
