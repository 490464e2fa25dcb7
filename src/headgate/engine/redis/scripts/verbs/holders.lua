-- holders: what holds a key that has very many holders, a slice at a time; some may come twice.
-- input {ident, how many, cursor}   answers {rows, see Reading.first_holders, cursor to go on with, '0' at the end}.
-- Cost: about 200 holders.
local LOOKS = '200'

local function verb(given)
  local slice = call('HSCAN', base .. 'held:' .. given[1], given[3], 'COUNT', LOOKS)
  return {Reading.first_holders(slice[2], given[2]), slice[1]}
end
