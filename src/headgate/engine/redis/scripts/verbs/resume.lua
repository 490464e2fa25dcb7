-- resume: allow claims from a queue again.   input {queue}   answers whether it was paused. Cost: constant.
local function verb(given)
  Store.call_workers = true
  return call('SREM', base .. 'paused', given[1]) == 1
end
