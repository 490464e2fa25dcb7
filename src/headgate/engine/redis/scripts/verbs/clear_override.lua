-- clear_override: take an override back.   input {name, value, tenant}   answers {whether there was one, whether go_on
-- has something to do}.
-- Cost: at most 50 keys of the name that are waited for, and what is offered.
local function verb(given)
  local name, value, tenant = given[1], given[2] or nil, given[3] or nil
  if call('HEXISTS', base .. 'overrides', Book.scope(name, value, tenant)) == 0 then return {false, false} end
  Transitions.set_override(name, value, tenant, false)
  return {true, Book.changing[name] ~= nil}
end
