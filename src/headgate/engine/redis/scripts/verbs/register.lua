-- register: begin a worker's lease; what the same id ran before is lost, and its numbers begin anew.
-- input {id, tasks, queues or false, lease, host, pid, concurrency, threaded tasks}   answers now. Cost: what it ran.
-- Kept are, in place of the last: when it began, how it was judged (losing.lua), and its threaded tasks.
local function verb(given)
  local id = table.remove(given, 1)
  Transitions.lose_worker(id)
  given[7], given[8], given[9] = now, false, given[7]
  Write.field('workers', id, pack(given))
  Write.score('leases', id, now + given[3])
  return now
end
