-- override: put an operator's value in force.   input {name, max, value, tenant, by, at, why, until}
-- answers whether go_on has something to do. Cost: at most 50 keys of the name that are waited for, and what is offered.
local function verb(given)
  local name = given[1]
  local is_cap = string.sub(name, 1, 5) == 'task:' or string.sub(name, 1, 6) == 'queue:'
  if not is_cap and not Book.limit(name) then Store.refuse('unknown', name) end
  Transitions.set_override(name, given[3] or nil, given[4] or nil, given)
  return Book.changing[name] ~= nil
end
