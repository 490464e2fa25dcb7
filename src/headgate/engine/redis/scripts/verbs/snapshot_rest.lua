-- snapshot_rest: armed timers, a slice at a time, the registered workers, and how far shares have come.
-- input {how many timers to pass over}   answers {{{ident, at} …}, whether there may be more, workers, {place, tag …}}.
-- Cost: at most 1000 timers, the workers, and the places with shares.
local MOST = 1000

local function verb(given)
  local timers = Reading.timers(given[1], MOST)
  return {timers, #timers == MOST, call('HKEYS', base .. 'workers'), call('HGETALL', base .. 'virtual')}
end
