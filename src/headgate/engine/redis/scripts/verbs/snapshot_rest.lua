-- snapshot_rest: armed timers, a slice at a time, and the registered workers.
-- input {how many timers to pass over}   answers {{{ident, at} …}, whether there may be more, workers}.
-- Cost: at most 1000 timers, and the workers.
local MOST = 1000

local function verb(given)
  local timers = Reading.timers(given[1], MOST)
  return {timers, #timers == MOST, call('HKEYS', base .. 'workers')}
end
