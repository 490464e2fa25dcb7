-- register: begin (or begin anew) a worker's lease.
-- input {id, tasks, queues or false, lease, host, pid, concurrency}   answers now. Cost: constant.
local function verb(given)
  local id = table.remove(given, 1)
  given[7] = now
  put_field('workers', id, pack(given))
  put_score('leases', id, now + given[3])
  return now
end
