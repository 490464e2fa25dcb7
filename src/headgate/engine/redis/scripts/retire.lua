-- retire: end a lease; what still runs under it is released, uncounted.   input {worker}. Cost: what it runs.
local function verb(given)
  for _, job in ipairs(Transitions.running_of(given[1])) do Transitions.release(job) end
  Transitions.forget_worker(given[1])
  return true
end
