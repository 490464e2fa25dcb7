-- resume_schedule: let a periodic task tick again, from now on.   input {name}   answers whether it was paused.
-- Cost: constant.
local function verb(given)
  if call('SREM', base .. 'schedules', given[1]) == 0 then return false end
  Write.field('ticks', given[1], now_text)
  return true
end
