-- retire: end a lease; what still runs under it is released, uncounted.   input {worker}. Cost: what it runs.
local function verb(given)
  for _, id in ipairs(call('ZRANGE', base .. 'run:' .. given[1], 0, -1)) do
    Moves.release(Store.job(id))
  end
  Write.field('workers', given[1], false)
  Write.score('leases', given[1], false)
  return true
end
