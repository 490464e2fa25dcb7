-- keys_in_use: the keys of a limit that are held or waited for, in the order of their idents, a slice at a time.
-- input {name, computed_before or false, after (ident) or false, how many}
-- answers {{{ident, max or false, held, waiting, computed_at or false} …}, ident to go on behind or false}.
-- Cost: at most 100 keys are looked at.
local LOOKS = 100

local function verb(given)
  local name, before, found = given[1], given[2], {}
  local members, beyond = Reading.slice({'helds', 'waited'}, name, given[3] and name .. '=' .. given[3], LOOKS)
  for _, member in ipairs(members) do
    local ident = Reading.ident(member)
    local numbers = call('HGET', base .. 'computed', ident)
    local at = numbers and parse(numbers)[2] or false
    if not before or not at or at < before then
      found[#found + 1] = {ident, Book.number(ident) or false, Ledger.held(ident), Reading.waiting(ident), at}
      if #found == given[4] then return {found, ident} end
    end
  end
  return {found, beyond and Reading.ident(members[#members])}
end
