-- heartbeat: renew a lease.   input {worker}   answers {cancelling, now}. Cost: the worker's cancellations.
local function verb(given)
  local worker = Transaction.leased(given[1])
  Write.score('leases', given[1], now + worker[3])
  return {call('ZRANGE', base .. 'stop:' .. given[1], 0, -1), now}
end
