-- declare: write the declared limits that differ and offer waiters where there is room now.
-- input {limit …}. Cost: the keys of changed limits that are waited for, and what is offered.
local function verb(given)
  Moves.declare(given)
  return true
end
