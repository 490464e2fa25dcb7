-- The ledger: who holds which key, who waits on it, who was offered it, what was spent of it. Part of every script.
-- What admission.py calls Ledger, with the same names.

-- The keys of a job in canonical order. Python stores the caps of its task and queue among them, marked; they count
-- while they are declared or overridden. A job without limits of its own has nothing stored: its caps are made here.
function Ledger.uses(job)
  if not job.uses then return Ledger.caps(job.queue, job.task) end
  if job.all_at ~= Book.version then
    local all = {}
    for _, use in ipairs(job.uses) do
      if not use[3] or Book.is_cap(use[1]) then all[#all + 1] = use end
    end
    job.all, job.all_at = all, Book.version
  end
  return job.all
end

function Ledger.caps(queue, task)
  if Ledger.caps_at ~= Book.version then
    Ledger.caps_of, Ledger.caps_at = {}, Book.version
  end
  local of_queue = Ledger.caps_of[queue]
  if not of_queue then
    of_queue = {}
    Ledger.caps_of[queue] = of_queue
  end
  local caps = of_queue[task]
  if not caps then
    caps = {}
    for _, ident in ipairs({'c0:queue:' .. queue, 'c0:task:' .. task}) do
      if Book.is_cap(ident) then caps[#caps + 1] = {ident, 1} end
    end
    of_queue[task] = caps
  end
  return caps
end

function Ledger.held(ident)
  if not Ledger.holding[ident] then
    Ledger.holding[ident] = call('HLEN', base .. 'held:' .. ident)
  end
  return Ledger.holding[ident]
end

function Ledger.holds(ident, job)
  return job.life.holds ~= nil and job.life.holds[ident] ~= nil
end

function Ledger.meter(ident)
  local rule = Book.rule(ident)
  local kind = rule.exact and Window or Bucket
  local meter = Ledger.meters[ident]
  if not meter or meter.kind ~= kind then
    meter = kind.load(ident, rule)
    Ledger.meters[ident] = meter
  end
  return meter
end

Ledger.offered = Store.offered

function Ledger.has_waiters(ident, queue)
  return Lines.size(Lines.waiting(ident, queue)) > 0
end

-- The queues with waiters on a key: those stored, and those that this step parked jobs in.
function Ledger.queues_waiting(ident)
  local found = {}
  for _, queue in ipairs(call('SMEMBERS', base .. 'waitq:' .. ident)) do
    if Ledger.has_waiters(ident, queue) then found[#found + 1] = queue end
  end
  for _, line in ipairs(Lines.on[ident] or {}) do
    if line.more > 0 and Lines.size(line) > 0 and line.stored == 0 then found[#found + 1] = line.queue end
  end
  return found
end

function Ledger.waiters(ident, queue, most)
  local jobs = {}
  for i, member in ipairs(Lines.first(Lines.waiting(ident, queue), most)) do
    jobs[i] = Store.ranked(Store.job(Store.id(member)), member)
  end
  return jobs
end

function Ledger.hold(ident, job, value)
  Ledger.taken[ident] = true
  Write.field('held:' .. ident, job.id, value)
end

-- Record the job as a holder; a reservation that it has becomes a slot.
function Ledger.take(ident, job, reserved)
  local holds = job.life.holds or {}
  if holds[ident] == nil then
    Ledger.holding[ident] = Ledger.held(ident) + 1
  elseif holds[ident] then
    Write.score('reserved', Text.join(job.id, ident), false)
  end
  holds[ident] = reserved
  job.life.holds = holds
  Store.dirty[job.id] = job
  Ledger.hold(ident, job, Text.whole(now) .. (reserved and 'r' or ''))
end

function Ledger.spend(ident, pace, units, job)
  local meter = Ledger.meter(ident)
  meter.kind.spend(meter, pace, units, job)
end

function Ledger.let_go(ident, job)
  local holds = job.life.holds
  if holds[ident] then Write.score('reserved', Text.join(job.id, ident), false) end
  Ledger.holding[ident] = Ledger.held(ident) - 1
  holds[ident] = nil
  if next(holds) == nil then job.life.holds = nil end
  Store.dirty[job.id] = job
  Ledger.hold(ident, job, false)
end

-- Delete a job's holder records except those of `keep` (a set); returns the keys that were let go.
function Ledger.drop_except(job, keep)
  local gone = {}
  for ident in pairs(job.life.holds or {}) do
    if not keep[ident] then gone[#gone + 1] = ident end
  end
  for _, ident in ipairs(gone) do Ledger.let_go(ident, job) end
  return gone
end

function Ledger.start(job)
  Store.may_fail('start')
  local life = job.life
  if life.result then job.result = false end
  Store.change(job, {
    state = 'running', worker = Ledger.claimer, attempt = life.attempt + 1, tries = life.tries + 1, started_at = now,
    ended_at = false, outcome = false, error = false, result = false, offered_by = false, units = 0, aside = false,
  })
  Ledger.started[#Ledger.started + 1] = job
  Ledger.readied[job.id] = nil
end

function Ledger.make_ready(job, offered_by, units)
  Store.change(job, {state = 'ready', waiting_on = false, offered_by = offered_by, units = units})
  Ledger.readied[job.id] = job.queue
  Ledger.limit_reservations(job, now + settings.reservation_ttl)
end

function Ledger.park(job, use, refusals)
  Store.may_fail('park')
  Store.change(job, {
    state = 'waiting', waiting_on = use[1], offered_by = false, units = use[2], refusals = refusals, aside = false,
  })
  Ledger.readied[job.id] = nil
  Ledger.limit_reservations(job, false)
end

function Ledger.set_aside(job)
  Store.change(job, {aside = true, offered_by = false, units = 0})
end

function Ledger.arm(ident, at)
  Write.score('timers', ident, at)
end

function Ledger.limit_reservations(job, expires_at)
  for ident in pairs(job.life.holds or {}) do
    Write.score('reserved', Text.join(job.id, ident), expires_at)
  end
end

-- Which keys are held, by name: for lists of limits, and for floating limits in use.
function Ledger.write()
  for ident in pairs(Ledger.taken) do
    Write.score('helds', Store.by_name(ident), Ledger.held(ident) > 0 and 0)
  end
end
