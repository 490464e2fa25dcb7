-- tokens: what rates have now.   input {ident …}   answers {{tokens, when the next is there or false} or false …}, see
-- reading.lua. Cost: the keys.
local function verb(given)
  local found = {}
  for i, ident in ipairs(given) do found[i] = Reading.tokens(ident) end
  return found
end
