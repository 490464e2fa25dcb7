-- states: only the states of jobs.   input {id …}   answers {state or false …}. Cost: the jobs asked for.
local function verb(given)
  local states = {}
  Store.load(given)
  for i, id in ipairs(given) do states[i] = Store.jobs[id] and Store.jobs[id].state or false end
  return states
end
