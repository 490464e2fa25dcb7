-- compute: store the number computed for a key of a floating limit.   input {ident, number}
-- Cost: constant, and what is offered.
local function verb(given)
  Transitions.compute(given[1], given[2], false)
  return true
end
