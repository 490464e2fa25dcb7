-- declare: write the declared limits that differ and offer waiters where there is room now.
-- input {limit …}   answers whether go_on has something to do. Cost: at most 50 keys of each changed limit that are
-- waited for, and what is offered.
local function verb(given)
  return Transitions.declare(given)
end
