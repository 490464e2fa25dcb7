-- restart: failed and cancelled jobs arrive anew, due now.
-- input {id …}   answers {{id, done, state} …}. Cost: per job its keys.
local function verb(given)
  return Transitions.each(given, Transitions.RESTARTED, Transitions.restart)
end
