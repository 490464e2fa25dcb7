-- keys_in_use: the keys of a limit that are held or waited for.
-- input {name}   answers {{ident, max or false, held, waiting, computed_at or false} …}. Cost: those keys.
local function verb(given)
  local found, seen = {}, {}
  for _, index in ipairs({'helds', 'waited'}) do
    for _, ident in ipairs(Book.of_name(index, given[1])) do
      if not seen[ident] then
        local computed = call('HGET', base .. 'computed', ident)
        found[#found + 1] = {ident, Book.number(ident) or false, Ledger.held(ident), Looking.waiting(ident),
          computed and parse(computed)[2] or false}
        seen[ident] = true
      end
    end
  end
  return found
end
