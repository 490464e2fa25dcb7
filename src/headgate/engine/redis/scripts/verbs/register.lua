-- register: begin a worker's lease; what the same id ran before is lost, and its numbers begin anew.
-- input {id, tasks, queues or false, lease, host, pid, concurrency}   answers now. Cost: what it ran.
local function verb(given)
  local id = table.remove(given, 1)
  Transitions.lose_worker(id)
  given[7] = now
  Write.field('workers', id, pack(given))
  Write.score('leases', id, now + given[3])
  return now
end
