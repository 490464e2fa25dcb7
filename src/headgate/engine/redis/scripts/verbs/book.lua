-- book: declared limits, overrides, and the names of all limits that have keys in use.
-- input {}   answers {limits, overrides, names}. Cost: these.
local function verb()
  local names, seen = {}, {}
  for _, index in ipairs({'helds', 'waited', 'computes'}) do
    local from = '-'
    while true do
      local member = call('ZRANGEBYLEX', base .. index, from, '+', 'LIMIT', '0', '1')[1]
      if not member then break end
      local name = sub(member, 1, string.find(member, '=', 1, true) - 1)
      if not seen[name] then seen[name], names[#names + 1] = true, name end
      from = '(' .. name .. '>' -- behind all members that begin with the name and `=`
    end
  end
  return {Reading.values('limits'), Reading.values('overrides'), names}
end
