-- explain: the facts about one job.
-- input {id}   answers false, or {{limits, overrides, {ident, numbers, gate or false} …}, held, waiting, holders or false, offered,
-- place, earliest, paused, workers, now, weight of its share or false, tokens or false}, and the job's fields, raw. False stands for more holders than one call reads.
-- Cost: at most 500 holders of the key it waits on, the rule book, the workers.
local MOST_HOLDERS = 10

local function workers()
  local found, leases = {}, call('ZRANGEBYSCORE', base .. 'leases', '(' .. Text.whole(now), '+inf')
  for i, id in ipairs(leases) do
    local record = parse(call('HGET', base .. 'workers', id))
    found[i] = {record[1], record[2]}
  end
  return found
end

-- What Python needs of the rule book for one key.
local function book(ident)
  local numbers, gate = ident and call('HGET', base .. 'computed', ident), ident and Book.all_gates()[ident]
  local rows = ident and {{ident, numbers and parse(numbers) or false, gate or false}} or {}
  return {Reading.values('limits'), Reading.values('overrides'), rows}
end

local function verb(given, raw)
  local job = Store.job(given[1])
  if not job then return false end
  raw[1] = Reading.fields(job.id)
  local ident = job.waiting_on
  local weight = job.need.share and Book.weight(job.need.share)
  local paused = call('SISMEMBER', base .. 'paused', job.need.queue) == 1
  if not ident then return {book(false), 0, 0, {}, 0, false, false, paused, workers(), now, weight, false} end
  local place = call('ZRANK', Store.line(job).key, Store.rank(job)) + 1
  return {book(ident), Ledger.held(ident), Reading.waiting(ident), Reading.holders(ident, MOST_HOLDERS),
    Ledger.offered(ident, job.need.queue), place,
    Reading.earliest(ident, job.units), paused, workers(), now, weight, Reading.tokens(ident)}
end
