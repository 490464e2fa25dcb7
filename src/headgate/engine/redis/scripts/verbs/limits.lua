-- limits: the keys of a limit that are held, waited for or computed, a slice at a time.
-- input {name, after (ident) or false, how many}
-- answers {{{ident, held, waiting, numbers or false, gate or false} …}, ident to go on behind or false, whether idents stand in the
-- order of their texts: where all of them belong to the same tenant}. Cost: the keys of the slice, at most 100.
local LOOKS = 100
local INDEXES = {'helds', 'waited', 'computes'}

local function verb(given)
  local name, after = given[1], given[2]
  local most = math.min(given[3], LOOKS)
  local members, beyond = Reading.slice(INDEXES, name, after and name .. '=' .. after, most)
  local idents = {}
  for i, member in ipairs(members) do idents[i] = Reading.ident(member) end
  return {Reading.counts(idents), beyond and idents[#idents], Reading.are_alike(INDEXES, name)}
end
