-- ticks: the last tick of each periodic task.   input {name …}   answers {at or false …}. Cost: those asked for.
local function verb(given)
  local found = {}
  for i, name in ipairs(given) do found[i] = tonumber(call('HGET', base .. 'ticks', name)) or false end
  return found
end
