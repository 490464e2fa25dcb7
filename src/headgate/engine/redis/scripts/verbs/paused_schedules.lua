-- paused_schedules: the periodic tasks that are paused.   answers {name …}. Cost: these.
local function verb()
  return call('SMEMBERS', base .. 'schedules')
end
