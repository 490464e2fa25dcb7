-- The ledger's slots and reservations: which job holds which key. Part of every script.
--
-- Held = the sum of the units of holder records. Nearly all have one, and are counted; what others have beyond that is
-- summed in `larger`, of limits of which jobs have named other units. A step counts what it takes and lets go, and job
-- by job it knows what each holds; the records follow from that at the end.

function Ledger.held(ident)
  local key = Ledger.at(ident)
  if not key.held then
    key.stored, key.larger = call('HLEN', key.name), 0
    if Book.rule(ident).sums then key.larger = tonumber(call('HGET', base .. 'larger', ident) or 0) end
    key.held, key.was_larger = key.stored + key.larger, key.larger
  end
  return key.held
end

-- One more or less holds a key, with so many units.
function Ledger.count(ident, by, units)
  local held, key = Ledger.held(ident), Ledger.at(ident)
  key.held, key.larger = held + units, key.larger + units - by
end

-- What stands for a holding: false for a slot, true for one that is only reserved; a number for several units, below
-- zero where they are only reserved.
function Ledger.kept_as(units, reserved)
  if units == 1 then return reserved end
  return reserved and -units or units
end

function Ledger.units_of(kept)
  return type(kept) == 'number' and math.abs(kept) or 1
end

function Ledger.is_reserved(kept)
  return kept == true or type(kept) == 'number' and kept < 0
end

-- How many units of a key a job holds.
function Ledger.holds(ident, job)
  local kept = nil
  if job.holds then kept = job.holds.keys[ident] end
  return kept == nil and 0 or Ledger.units_of(kept)
end

-- What a job holds, key → how it is kept, as a table that is never changed and that many jobs share. It is
-- found by its text.
function Ledger.holding(text)
  local holding = Ledger.holdings[text]
  if not holding then
    holding = {text = text, keys = parse(text)}
    Ledger.holdings[text], Ledger.holdings_known = holding, Ledger.holdings_known + 1
  end
  return holding
end

-- The same with a key reserved or taken, or without it (nil).
function Ledger.changed(holding, ident, kept)
  local keys = {}
  for key, value in pairs(holding and holding.keys or keys) do keys[key] = value end
  keys[ident] = kept
  return next(keys) ~= nil and Ledger.holding(pack(keys))
end

-- What a job holds that has started: a slot of every concurrency key.
function Ledger.slots(job)
  local uses, need = Ledger.uses(job), job.need
  if need.slots == nil then
    local keys = {}
    for _, use in ipairs(uses) do
      if not Admission.is_rate(use[1]) then keys[use[1]] = Ledger.kept_as(use[2], false) end
    end
    need.slots = next(keys) ~= nil and Ledger.holding(pack(keys))
  end
  return need.slots
end

-- Count the job as a holder; a reservation that it has becomes a slot. One that starts holds all of its slots from then
-- on, the others this one besides what they hold.
function Ledger.take(ident, job, units, reserved)
  local holds, before = job.holds, nil
  if holds then before = holds.keys[ident] end
  if before == nil then
    Ledger.count(ident, 1, units)
  else
    Ledger.count(ident, 0, units - Ledger.units_of(before))
    if Ledger.is_reserved(before) then Write.score('reserved', Text.join(job.id, ident), false) end
  end
  if reserved or job.state == 'running' then
    job.holds = Ledger.changed(holds, ident, Ledger.kept_as(units, reserved))
    Store.touch(job)
  end
end

function Ledger.vacate(ident, job, kept)
  if Ledger.is_reserved(kept) then Write.score('reserved', Text.join(job.id, ident), false) end
  Ledger.count(ident, -1, -Ledger.units_of(kept))
end

function Ledger.let_go(ident, job)
  Ledger.vacate(ident, job, job.holds.keys[ident])
  job.holds = Ledger.changed(job.holds, ident, nil)
  Store.touch(job)
end

-- Returns what it held, a set.
function Ledger.let_go_all(job)
  if not job.holds then return Lines.NONE end
  local keys = job.holds.keys
  for ident, kept in pairs(keys) do Ledger.vacate(ident, job, kept) end
  job.holds = false
  Store.touch(job)
  return keys
end

-- Let go of all keys except those of `keep`, a set; returns those that were let go.
function Ledger.drop_except(job, keep)
  local gone = {}
  for ident in pairs(job.holds and job.holds.keys or gone) do
    if not keep[ident] then gone[#gone + 1] = ident end
  end
  for _, ident in ipairs(gone) do Ledger.let_go(ident, job) end
  return gone
end

function Ledger.limit_reservations(job, expires_at)
  for ident in pairs(job.holds.keys) do
    Write.score('reserved', Text.join(job.id, ident), expires_at)
  end
end

function Ledger.note_leaver(id, was, holds)
  for ident in pairs(was) do
    if holds[ident] == nil then
      local key = Ledger.at(ident)
      key.left = key.left + 1
      key.leavers[key.left] = id
    end
  end
end

-- Slots are held since the job has started, also those that it had reserved before.
function Ledger.note_comer(job, holds, was)
  local starts = job.state == 'running' and job.started_at == now
  for ident, kept in pairs(holds) do
    if starts or was[ident] ~= kept then
      local key = Ledger.at(ident)
      local place, units = key.come, Ledger.units_of(kept)
      local text = Ledger.is_reserved(kept) and now_text .. 'r' or now_text
      key.comers[place + 1], key.comers[place + 2] = job.id, units == 1 and text or text .. '*' .. Text.number(units)
      key.come = place + 2
    end
  end
end

-- A holder record read back: since when, whether reserved, how many units.
function Ledger.read_holder(text)
  local since, reserved, units = string.match(text, '^(%d+)(r?)%*?(%d*)$')
  return tonumber(since), reserved == 'r', tonumber(units) or 1
end
