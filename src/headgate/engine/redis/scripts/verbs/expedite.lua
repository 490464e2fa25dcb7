-- expedite: scheduled jobs become due now.
-- input {id …}   answers {{id, done, state} …}. Cost: per job its keys.
local function verb(given)
  return Transitions.each(given, {scheduled = true}, Transitions.expedite)
end
