-- limit_sums: how many hold and wait for any key of a limit.
-- input {name, how many to count at least}   answers {held, waiting, whether these are all}. Where that many keys are held
-- or waited for, each of them counts once: not all. Cost: the keys, fewer than that many of each.
local function idents_of(index, name)
  local idents = call('ZRANGEBYLEX', base .. index, '[' .. name .. '=', '(' .. name .. '>')
  for i, member in ipairs(idents) do idents[i] = Reading.ident(member) end
  return idents
end

local function verb(given)
  local name, most = given[1], given[2]
  local from, till = '[' .. name .. '=', '(' .. name .. '>'
  local held, waiting = call('ZLEXCOUNT', base .. 'helds', from, till), call('ZLEXCOUNT', base .. 'waited', from, till)
  if held >= most or waiting >= most then return {held, waiting, false} end
  held, waiting = 0, 0
  for _, ident in ipairs(idents_of('helds', name)) do held = held + Reading.held(ident) end
  for _, count in ipairs(Reading.waiting_on(idents_of('waited', name))) do waiting = waiting + count end
  return {held, waiting, true}
end
