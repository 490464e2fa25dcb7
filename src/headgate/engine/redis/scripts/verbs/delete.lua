-- delete: remove ended jobs.
-- input {id …}   answers {{id, done, state} …}. Cost: per job its keys.
local function verb(given)
  return Transitions.each(given, {succeeded = true, failed = true, cancelled = true}, Store.remove)
end
