-- waiters: what waits on a key, in order, a slice at a time.
-- input {ident, how many, after (rank) or false}   answers {rows, see Reading.waiters, rank to go on behind or false}.
-- Cost: so many members of the line of each queue.
local function verb(given)
  return {Reading.waiters(given[1], given[2], given[3])}
end
