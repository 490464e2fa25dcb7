-- register: begin a worker's lease; what the same id ran before is lost.
-- input {id, tasks, queues or false, lease, host, pid, concurrency}   answers now. Cost: what it ran.
local function verb(given)
  local id = table.remove(given, 1)
  for _, job in ipairs(call('ZRANGE', base .. 'run:' .. id, 0, -1)) do
    Moves.lose(Store.job(job))
  end
  given[7] = now
  Write.field('workers', id, pack(given))
  Write.score('leases', id, now + given[3])
  return now
end
