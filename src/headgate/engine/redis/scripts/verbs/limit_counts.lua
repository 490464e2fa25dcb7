-- limit_counts: how many hold and wait for single keys.
-- input {ident …}   answers {{ident, held, waiting, numbers or false, gate or false} …}. Cost: the keys.
local function verb(given)
  return Reading.counts(given)
end
