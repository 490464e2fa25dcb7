-- cancel: scheduled, ready and waiting jobs end at once; running ones are asked to.
-- input {id …}   answers {{id, done, state} …}. Cost: per job its keys.
local function verb(given)
  return Transitions.each(given, {scheduled = true, ready = true, waiting = true, running = true}, Transitions.cancel)
end
