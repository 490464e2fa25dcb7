-- tick: move a periodic task's last tick and enqueue its jobs; ids that exist are passed over.
-- input {name, seen or false, at, jobs}   arguments 3 and on: specs and needs   answers whether it was moved. Cost: as enqueue.
local function verb(given)
  local last = tonumber(call('HGET', base .. 'ticks', given[1])) or false
  if last ~= given[2] then return false end
  Write.field('ticks', given[1], Text.whole(given[3]))
  local jobs = {}
  for _, job in ipairs(given[4]) do
    if call('EXISTS', base .. 'job:' .. job[1]) == 0 then jobs[#jobs + 1] = job end
  end
  Moves.enqueue(jobs)
  return true
end
