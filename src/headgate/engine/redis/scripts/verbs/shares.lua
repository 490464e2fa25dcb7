-- shares: the shares that have a weight, or jobs that are ready or waiting, in the order of their names, a slice at a time.
-- input {after (name) or false, how many}   answers {{share, operator's weight or false, declared or false, pending} …}: fewer
-- than asked for at the end. Cost: the shares of the slice and their places.
local function row(share)
  local said, declared, pending = call('HGET', base .. 'weights', share), call('HGET', base .. 'declared', share), 0
  for _, place in ipairs(call('SMEMBERS', base .. 'places:' .. share)) do
    pending = pending + call('ZCARD', base .. 'share:' .. Text.join(share, place))
  end
  return {share, said and parse(said), declared and parse(declared), pending}
end

local function verb(given)
  local from, rows = given[1] and '(' .. given[1] or '-', {}
  local names = call('ZRANGEBYLEX', base .. 'shares', from, '+', 'LIMIT', '0', Text.whole(given[2]))
  for i, share in ipairs(names) do rows[i] = row(share) end
  return rows
end
