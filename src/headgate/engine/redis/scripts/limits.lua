-- limits: the rule book, and the keys that are held or waited for.
-- input {name or false}   answers {book, {{ident, held} …}, {{ident, waiting} …}}. Cost: limits and keys in use.
local function verb(given)
  return {
    Looking.book(),
    Looking.counted('helds', given[1], Ledger.held),
    Looking.counted('waited', given[1], Looking.waiting),
  }
end
