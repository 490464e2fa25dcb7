-- heartbeat: renew a lease, and add to the history what the worker has done.
-- input {worker, done}, see history.lua   answers {cancelling, now}. Cost: the worker's cancellations, and what it did.
local function verb(given)
  local worker = Transaction.leased(given[1])
  Write.score('leases', given[1], now + worker[3])
  History.add(given[2])
  return {call('ZRANGE', base .. 'stop:' .. given[1], 0, -1), now}
end
