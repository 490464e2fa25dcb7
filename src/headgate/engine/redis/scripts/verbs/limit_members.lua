-- limit_members: only which keys of a limit are held, waited for or computed, a slice at a time.
-- input {name, after (ident) or false}   answers {{ident …}, ident to go on behind or false}. Cost: at most 1000 keys.
local LOOKS = 1000
local INDEXES = {'helds', 'waited', 'computes'}

local function verb(given)
  local name, after, idents = given[1], given[2], {}
  local members, beyond = Reading.slice(INDEXES, name, after and name .. '=' .. after, LOOKS)
  for i, member in ipairs(members) do idents[i] = Reading.ident(member) end
  return {idents, beyond and idents[#idents]}
end
