-- declare_shares: write the weights of fair shares that code declares and that differ.
-- input {{share, weight, by, at, why, until or false} …}   answers whether go_on has something to do. Cost: per weight that
-- differs the queues where the share waits, and the first jobs that are tagged anew there.
local function verb(given)
  for _, row in ipairs(given) do Shares.declare(row) end
  return Shares.are_left()
end
