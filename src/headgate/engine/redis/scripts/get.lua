-- get: whole jobs.   input {id …}   answers true, and for each job its fields, raw. Cost: the jobs asked for.
local function verb(given, raw)
  for i, id in ipairs(given) do
    local found = call('HMGET', base .. 'job:' .. id, 'spec', 'need', 'life', 'past', 'result', 'progress')
    raw[i] = found[1] and {id, unpack(found)} or false
  end
  return true
end
