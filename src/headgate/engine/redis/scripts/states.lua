-- states: only the states of jobs.   input {id …}   answers {state or false …}. Cost: the jobs asked for.
local function verb(given)
  local states = {}
  for i, id in ipairs(given) do
    local life = call('HGET', base .. 'job:' .. id, 'life')
    states[i] = life and parse(life).state or false
  end
  return states
end
