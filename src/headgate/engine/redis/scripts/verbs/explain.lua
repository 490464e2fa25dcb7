-- explain: the facts about one job.
-- input {id}   answers false, or {{limits, overrides, computed}, held, waiting, holders, offered, place, earliest,
-- paused, workers, now}, and
-- the job's fields, raw. Cost: the holders of the key it waits on, the rule book, the workers.
local MOST_HOLDERS = 10

local function holders(ident)
  local all, found = call('HGETALL', base .. 'held:' .. ident), {}
  for i = 1, #all, 2 do
    local since, reserved = string.match(all[i + 1], '^(%d+)(r?)$')
    found[#found + 1] = {id = all[i], since = tonumber(since), reserved = reserved == 'r'}
  end
  table.sort(found, function(a, b)
    if a.since ~= b.since then return a.since < b.since end
    return Store.job(a.id).seq < Store.job(b.id).seq
  end)
  local shown = {}
  for i = 1, math.min(#found, MOST_HOLDERS) do
    local job = Store.job(found[i].id)
    shown[i] = {found[i].id, job.need.task, job.worker or false, found[i].since, found[i].reserved}
  end
  return shown
end

local function earliest(ident, units)
  local rule = Book.rule(ident)
  if not rule.rate or not rule.limit or rule.limit == 0 then return false end
  local meter = Ledger.meter(ident)
  return meter.kind.when(meter, rule, units) or false
end

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
  local computed = ident and call('HGET', base .. 'computed', ident)
  return {Reading.values('limits'), Reading.values('overrides'), computed and {{ident, parse(computed)}} or {}}
end

local function verb(given, raw)
  local job = Store.job(given[1])
  if not job then return false end
  raw[1] = Reading.fields(job.id)
  local ident = job.waiting_on
  local paused = call('SISMEMBER', base .. 'paused', job.need.queue) == 1
  if not ident then return {book(false), 0, 0, {}, 0, false, false, paused, workers(), now} end
  local place = call('ZRANK', Store.line(job).key, Store.rank(job)) + 1
  return {book(ident), Ledger.held(ident), Reading.waiting(ident), holders(ident),
    Ledger.offered(ident, job.need.queue), place,
    earliest(ident, job.units), paused, workers(), now}
end
