-- tightest: the keys that more than so many jobs wait on, a slice of all that are waited for at a time.
-- input {how many jobs, after (member of the index) or false}
-- answers {{{ident, waiting} …}, member to go on behind or false}. Cost: at most 250 keys are looked at.
local LOOKS = 250

local function verb(given)
  local from = given[2] and '(' .. given[2] or '-'
  local members = call('ZRANGEBYLEX', base .. 'waited', from, '+', 'LIMIT', '0', Text.whole(LOOKS))
  local idents, found = {}, {}
  for i, member in ipairs(members) do idents[i] = Reading.ident(member) end
  for i, count in ipairs(Reading.waiting_on(idents)) do
    if count > given[1] then found[#found + 1] = {idents[i], count} end
  end
  return {found, #members == LOOKS and members[LOOKS]}
end
