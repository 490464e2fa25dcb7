-- snapshot_keys: holders and room of some keys: those named, or a slice of all that are held or waited for.
-- input {{ident …} or false, after (member of the index) or false}
-- answers {{{ident, {{id, reserved, units} …}, free or false, most or false} …}, member to go on behind or false}.
-- Cost: at most 100 keys, or those with the first 1000 holders.
local MOST, HOLDERS = 100, 1000

local function verb(given)
  local rows, seen, members, beyond = {}, 0, given[1], false
  if not members then members, beyond = Reading.slice({'helds', 'waited'}, false, given[2], MOST) end
  for i, member in ipairs(members) do
    local row = Reading.key(given[1] and member or Reading.ident(member))
    rows[i], seen = row, seen + #row[2]
    if seen > HOLDERS and not given[1] and i < #members then return {rows, member} end
  end
  return {rows, beyond and members[#members]}
end
