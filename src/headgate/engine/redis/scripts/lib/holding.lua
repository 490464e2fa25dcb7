-- The ledger's slots and reservations: which job holds which key. Part of every script.
--
-- Held = number of holder records. A step counts what it takes and lets go, and job by job it knows what each holds; the
-- records follow from that at the end.

function Ledger.held(ident)
  local key = Ledger.at(ident)
  if not key.held then
    key.held = call('HLEN', key.name)
    key.stored = key.held
  end
  return key.held
end

function Ledger.holds(ident, job)
  return job.holds and job.holds.keys[ident] ~= nil
end

-- What a job holds, key → whether it is only reserved, as a table that is never changed and that many jobs share. It is
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
function Ledger.changed(holding, ident, reserved)
  local keys = {}
  for key, value in pairs(holding and holding.keys or keys) do keys[key] = value end
  keys[ident] = reserved
  return next(keys) ~= nil and Ledger.holding(pack(keys))
end

-- What a job holds that has started: a slot of every concurrency key.
function Ledger.slots(job)
  local uses, need = Ledger.uses(job), job.need
  if need.slots == nil then
    local keys = {}
    for _, use in ipairs(uses) do
      if not Admission.is_rate(use[1]) then keys[use[1]] = false end
    end
    need.slots = next(keys) ~= nil and Ledger.holding(pack(keys))
  end
  return need.slots
end

-- Count the job as a holder; a reservation that it has becomes a slot. One that starts holds all of its slots from then
-- on, the others this one besides what they hold.
function Ledger.take(ident, job, reserved)
  local key, holds, before = Ledger.at(ident), job.holds, nil
  if holds then before = holds.keys[ident] end
  if before == nil then
    key.held = Ledger.held(ident) + 1
  elseif before then
    Write.score('reserved', Text.join(job.id, ident), false)
  end
  if reserved or job.state == 'running' then
    job.holds = Ledger.changed(holds, ident, reserved)
    Store.touch(job)
  end
end

function Ledger.vacate(ident, job, reserved)
  if reserved then Write.score('reserved', Text.join(job.id, ident), false) end
  Ledger.at(ident).held = Ledger.held(ident) - 1
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
  for ident, reserved in pairs(keys) do Ledger.vacate(ident, job, reserved) end
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
  for ident, reserved in pairs(holds) do
    if starts or was[ident] ~= reserved then
      local key = Ledger.at(ident)
      local place = key.come
      key.comers[place + 1], key.comers[place + 2] = job.id, reserved and now_text .. 'r' or now_text
      key.come = place + 2
    end
  end
end
