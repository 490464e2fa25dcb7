-- retire: end a lease; what still runs under it is released, uncounted.   input {worker}. Cost: what it runs.
local function verb(given)
  for _, member in ipairs(call('ZRANGE', base .. 'run:' .. given[1], 0, -1)) do
    Moves.release(Store.job(string.sub(member, 13)))
  end
  Write.field('workers', given[1], false)
  Write.score('leases', given[1], false)
  return true
end
