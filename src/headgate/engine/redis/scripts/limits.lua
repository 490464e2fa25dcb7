-- limits: the keys of a limit that are held, waited for or computed, a slice at a time.
-- input {name, after (ident) or false, how many}
-- answers {{{ident, held, waiting, {number, at} or false} …}, ident to go on behind or false, whether idents stand in the
-- order of their texts: where all of them belong to the same tenant}. Cost: the keys of the slice, at most 100.
local LOOKS = 100
local INDEXES = {'helds', 'waited', 'computes'}

-- Idents begin with the kind of the key and its tenant.
local function are_alike(name)
  for _, start in ipairs({name .. '=c0:', name .. '=r0:'}) do
    local same = true
    for _, index in ipairs(INDEXES) do
      local all = call('ZLEXCOUNT', base .. index, '[' .. name .. '=', '(' .. name .. '>')
      same = same and all == call('ZLEXCOUNT', base .. index, '[' .. start, '(' .. sub(start, 1, -2) .. ';')
    end
    if same then return true end
  end
  return false
end

local function verb(given)
  local name, after, found = given[1], given[2], {}
  local most = math.min(given[3], LOOKS)
  local members, beyond = Looking.slice(INDEXES, name, after and name .. '=' .. after, most)
  for i, member in ipairs(members) do
    local ident = Looking.ident(member)
    local computed = call('HGET', base .. 'computed', ident)
    found[i] = {ident, Ledger.held(ident), Looking.waiting(ident), computed and parse(computed) or false}
  end
  return {found, beyond and Looking.ident(members[#members]), are_alike(name)}
end
