-- retire: end a lease; what still runs under it is released, uncounted.   input {worker}. Cost: what it runs.
local function verb(given)
  for _, job in ipairs(Moves.running_of(given[1])) do Moves.release(job) end
  Moves.forget_worker(given[1])
  return true
end
