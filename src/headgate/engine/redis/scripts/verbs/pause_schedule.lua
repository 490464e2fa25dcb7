-- pause_schedule: let a periodic task tick no more.   input {name}   answers whether it was not paused before.
-- Cost: constant.
local function verb(given)
  return call('SADD', base .. 'schedules', given[1]) == 1
end
