-- pause: stop claims from a queue.   input {queue}   answers whether it was not paused before. Cost: constant.
local function verb(given)
  return call('SADD', base .. 'paused', given[1]) == 1
end
