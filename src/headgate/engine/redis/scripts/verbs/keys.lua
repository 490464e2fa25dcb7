-- keys: how single keys stand.
-- input {{ident …}, how many holders, how many waiters}
-- answers for each false if its limit is not known, or {limit or false, override or false, numbers or false, held,
-- waiting, free or false, earliest or false, holders or false, waiters, tokens or false, gate or false}, see reading.lua; false where there are too many
-- holders for one call. Cost: per key at most 500 holders, and the waiters asked for.
local function is_known(ident, key, limit)
  if limit then return (limit.kind == 'rate') == key.rate end
  return not key.rate and Book.override(key) ~= nil
end

local function limit_row(name)
  local text = call('HGET', base .. 'limits', name)
  return text and parse(text)
end

local function free(ident)
  local left = Admission.free(ident)
  return left < Admission.UNLIMITED and math.max(left, 0)
end

local function standing(ident, holders, waiters)
  local key = Book.key(ident)
  if not is_known(ident, key, Book.limit(key.name)) then return false end
  local computed, left = call('HGET', base .. 'computed', ident), free(ident)
  return {
    limit_row(key.name), Book.override(key) or false, computed and parse(computed), Ledger.held(ident),
    Reading.waiting_on({ident})[1], left, left == 0 and Reading.earliest(ident, 1),
    holders > 0 and Reading.holders(ident, holders) or holders == 0 and {}, (Reading.waiters(ident, waiters, false)),
    Reading.tokens(ident), Book.all_gates()[ident] or false,
  }
end

local function verb(given)
  local found = {}
  for i, ident in ipairs(given[1]) do found[i] = standing(ident, given[2], given[3]) end
  return found
end
