-- retire: release what a worker runs, uncounted, a slice at a time, and end its lease with the last of it.
-- input {worker}   answers whether attempts are left. Cost: at most 100 attempts.
local function verb(given)
  return Transitions.retire(given[1], 100)
end
