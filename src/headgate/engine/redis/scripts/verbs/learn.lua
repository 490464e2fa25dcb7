-- learn: store the number learnt for a key of an adaptive limit, and why, if the number in force is still what was seen.
-- input {ident, number, seen or false, reason}   answers whether it was. Cost: constant, and what is offered.
local function verb(given)
  return Transitions.learn(given[1], given[2], given[3], given[4])
end
