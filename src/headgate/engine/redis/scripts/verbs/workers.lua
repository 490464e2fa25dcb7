-- workers: the registered workers.   answers {{id, record, lease_until, running} …}. Cost: the workers.
local function verb()
  local found = {}
  local leases = call('ZRANGE', base .. 'leases', 0, -1, 'WITHSCORES')
  for i = 1, #leases, 2 do
    local record = parse(call('HGET', base .. 'workers', leases[i]))
    found[#found + 1] = {leases[i], record, tonumber(leases[i + 1]), call('ZCARD', base .. 'run:' .. leases[i])}
  end
  return found
end
