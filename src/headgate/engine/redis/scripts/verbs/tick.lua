-- tick: move a periodic task's last tick and enqueue its jobs; ids that exist are passed over.
-- input {name, seen or false, at, jobs}   arguments 3 and on: specs, then needs   answers whether it was moved;
-- not while it is paused. Cost: as enqueue.
local function verb(given)
  local last = tonumber(call('HGET', base .. 'ticks', given[1])) or false
  if last ~= given[2] or call('SISMEMBER', base .. 'schedules', given[1]) == 1 then return false end
  Write.field('ticks', given[1], Text.whole(given[3]))
  local ids, numbers, places = {}, {}, {}
  for i, id in ipairs(given[4][1]) do
    if call('EXISTS', base .. 'job:' .. id) == 0 then
      ids[#ids + 1], numbers[#ids + 1], places[#ids + 1] = id, given[4][2][i], 2 + i
    end
  end
  Transitions.enqueue({ids, numbers, given[4][3], places}, false)
  return true
end
