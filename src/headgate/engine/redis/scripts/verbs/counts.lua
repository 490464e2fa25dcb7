-- counts: jobs per state and queue, and the paused queues.   answers {{'state:queue', number …}, {queue …}}
-- Cost: queues × states.
local function verb()
  return {call('HGETALL', base .. 'counts'), call('SMEMBERS', base .. 'paused')}
end
