-- set_share: put an operator's weight for a share in force.   input {share, weight, by, at, why, until or false}
-- answers whether go_on has something to do. Cost: the queues where the share waits, and the first jobs that are tagged
-- anew there.
local function verb(given)
  Shares.set(given[1], given)
  return Shares.are_left()
end
