-- shares: the shares that have a weight, or jobs that are ready or waiting, in the order of their names, a slice at a time.
-- input {after (name) or false, how many}   answers {{share, operator's weight or false, declared or false, pending} …}: fewer
-- than asked for at the end. Cost: the shares of the slice, and the places with jobs of any.

-- Names in the order of their bytes.
local function stands_before(a, b)
  for place = 1, math.min(#a, #b) do
    local one, other = string.byte(a, place), string.byte(b, place)
    if one ~= other then return one < other end
  end
  return #a < #b
end

-- The next share behind a name (false: the first) that has jobs at a place.
local function next_at(place, after)
  local from = after and '(' .. Lines.beyond(Shares.head(after)) or '-'
  local member = call('ZRANGEBYLEX', base .. 'share:' .. place, from, '+', 'LIMIT', '0', '1')[1]
  return member and Shares.of_member(member)
end

local function next_with_weight(after)
  return call('ZRANGEBYLEX', base .. 'shares', after and '(' .. after or '-', '+', 'LIMIT', '0', '1')[1]
end

local function row(share, places)
  local said, declared, pending = call('HGET', base .. 'weights', share), call('HGET', base .. 'declared', share), 0
  local head = Shares.head(share)
  for _, place in ipairs(places) do
    pending = pending + call('ZLEXCOUNT', base .. 'share:' .. place, '[' .. head, '(' .. Lines.beyond(head))
  end
  return {share, said and parse(said), declared and parse(declared), pending}
end

local function verb(given)
  local places, rows, nexts = call('HKEYS', base .. 'sharing'), {}, {}
  for i, place in ipairs(places) do nexts[i] = next_at(place, given[1]) or false end
  nexts[#places + 1] = next_with_weight(given[1]) or false
  while #rows < given[2] do
    local first = false
    for _, name in ipairs(nexts) do
      if name and (not first or stands_before(name, first)) then first = name end
    end
    if not first then break end
    rows[#rows + 1] = row(first, places)
    for i, name in ipairs(nexts) do
      if name == first then nexts[i] = (places[i] and next_at(places[i], first) or not places[i] and next_with_weight(first)) or false end
    end
  end
  return rows
end
