-- enqueue: store all of the jobs or none; `limits` are declared in the same step.
-- input {limits, jobs}, see newcomers.lua   arguments 3 and on: specs, then needs   answers {{state …}, {{place, id} …}}
-- Cost: per job its keys, plus the offers of the keys it touches.
local function verb(given)
  Transitions.declare(given[1])
  return Transitions.enqueue(given[2], true)
end
