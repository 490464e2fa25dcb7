-- get: whole jobs.   input {id …}   answers true, and for each job its fields, raw. Cost: the jobs asked for.
local function verb(given, raw)
  for i, id in ipairs(given) do raw[i] = Reading.fields(id) end
  return true
end
