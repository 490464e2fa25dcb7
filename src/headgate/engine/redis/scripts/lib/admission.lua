-- The rules of admission: admission.py, in Lua. Part of every script. The Python page explains; this one decides alike.

Admission.UNLIMITED, Admission.OFFER_MOST, Admission.LOOK_MORE = 2 ^ 52, 1000, 256

function Admission.is_rate(ident)
  return string.byte(ident, 1) == 114
end

-- Slots or whole tokens that are left; below zero when a limit was lowered under what runs.
function Admission.free(ident)
  local rule = Book.rule(ident)
  if not rule.rate then
    local most = rule.gate and Admission.most(rule) or not rule.gate and rule.max
    return most and most - Ledger.held(ident) or Admission.UNLIMITED
  end
  if not rule.limit then return Admission.UNLIMITED end
  if rule.limit == 0 then return 0 end
  local meter = Ledger.meter(ident)
  return meter.kind.free(meter, rule)
end

-- ── keys that were throttled: closed until `opens_at`, then one slot more every `step` ──────────────────────────────────

Admission.GATE_STEPS = 10 -- in how many steps a throttled key without a number of its own opens again

-- The number of a concurrency limit with a gate at this instant.
function Admission.most(rule)
  local gate, most = rule.gate, rule.max
  if now >= Admission.open_at(rule) then return most end
  if now < gate[1] then return 0 end
  local opened = 1 + math.floor((now - gate[1]) / gate[2])
  return (not most or opened < most) and opened or most
end

-- From when on it is open wide.
function Admission.open_at(rule)
  local gate = rule.gate
  return gate[1] + gate[2] * math.max((rule.max or Admission.GATE_STEPS) - 1, 0)
end

-- When it opens further, until it is open wide; nil then.
function Admission.opens_at(rule)
  local gate = rule.gate
  if not gate or now >= Admission.open_at(rule) then return nil end
  if now < gate[1] then return gate[1] end
  return now + gate[2] - math.fmod(now - gate[1], gate[2])
end

function Admission.touch(ident)
  if ident and not Admission.touched[ident] then
    Admission.touched[ident] = true
    Admission.touches[#Admission.touches + 1] = ident
  end
end

-- A line has changed whose jobs may wait although some of its key is free: the next head may need less.
function Admission.touch_line(ident)
  if Book.rule(ident).lines_up then Admission.touch(ident) end
end

-- ── a job becomes due ─────────────────────────────────────────────────────────────────────────────────────────────

function Admission.is_waited_for(ident, queue)
  return (Book.rule(ident).lines_up or Admission.touched[ident] or Book.is_changing(ident))
    and Ledger.has_waiters(ident, queue)
end

-- `entering`: it is being enqueued, and can still be refused; `returning`: it comes back uncounted.
function Admission.arrive(job, entering, returning)
  if not returning and not Full.may_enter(job, entering) then return end
  local tightest, least = nil, Admission.UNLIMITED + 1
  local queue = job.need.queue
  for _, use in ipairs(Ledger.uses(job)) do
    local room = Admission.free(use[1]) - Ledger.offered(use[1], queue)
    if room < use[2] or Admission.is_waited_for(use[1], queue) then
      if returning or Full.may_wait(job, use, entering) then
        Ledger.park(job, use, 0)
        Admission.touch_line(use[1])
      end
      return
    end
    if room < least then tightest, least = use, room end
  end
  Ledger.make_ready(job, tightest and tightest[1] or false, tightest and tightest[2] or 0)
end

-- ── a worker wants it ─────────────────────────────────────────────────────────────────────────────────────────────

function Admission.admits(job, use)
  local ident, free = use[1], Admission.free(use[1])
  if free < use[2] then return free + Ledger.holds(ident, job) >= use[2] end
  if ident == job.offered_by or not Book.rule(ident).lines_up then return true end
  -- Do others stand in line for more? One that needs much would starve if each passer-by took what comes.
  return not Ledger.has_waiters(ident, job.need.queue) or Ledger.holds(ident, job) > 0
end

function Admission.take(job, use)
  if not Admission.is_rate(use[1]) then
    Ledger.take(use[1], job, use[2], false)
    return
  end
  local rule = Book.rule(use[1])
  if rule.limit then Ledger.spend(use[1], rule, use[2], job) end
end

-- An offer that was used leaves room as it was, unless waiters were offered in slices or a rate's timer waited for it.
function Admission.use_offer(ident)
  if not ident then return end
  local rule = Book.rule(ident)
  if rule.rate or not rule.max or rule.max > Admission.OFFER_MOST then Admission.touch(ident) end
end

-- Rule 7: the keys before the refusing one, never for a rate wait.
function Admission.reservable(refused, uses)
  local kept = {}
  if Admission.is_timed(refused[1]) then return kept end
  for _, use in ipairs(uses) do
    if use == refused then break end
    kept[#kept + 1] = use
  end
  return kept
end

function Admission.refuse(job, refused, uses)
  local passed_over = job.refusals and job.offered_by and job.offered_by ~= refused[1]
  local refusals = (job.refusals or 0) + (passed_over and 1 or 0)
  local kept, keep = refusals >= settings.patience and Admission.reservable(refused, uses) or {}, {}
  for _, use in ipairs(kept) do
    keep[use[1]] = true
    if Ledger.holds(use[1], job) == 0 then Ledger.take(use[1], job, use[2], true) end
  end
  for _, ident in ipairs(Ledger.drop_except(job, keep)) do Admission.touch(ident) end
  Admission.touch(job.offered_by)
  Admission.touch_line(refused[1])
  local name = Book.key(refused[1]).name
  Admission.parked[name] = (Admission.parked[name] or 0) + 1
  Ledger.park(job, refused, refusals)
end

-- A job that starts lets go of reservations of caps that were withdrawn meanwhile.
function Admission.drop_unneeded(job, uses)
  local needed = {}
  for _, use in ipairs(uses) do needed[use[1]] = true end
  for _, ident in ipairs(Ledger.drop_except(job, needed)) do Admission.touch(ident) end
end

-- One that should have started by now ends instead.
function Admission.claim(job)
  if job.start_by and job.start_by <= now then
    Transitions.cancel_pending(job, Full.EXPIRED)
    return false
  end
  local uses = Ledger.uses(job)
  for _, use in ipairs(uses) do
    if not Admission.admits(job, use) then
      Admission.refuse(job, use, uses)
      return false
    end
  end
  local reserved = job.holds
  for _, use in ipairs(uses) do Admission.take(job, use) end
  if reserved then Admission.drop_unneeded(job, uses) end
  Admission.use_offer(job.offered_by)
  Ledger.start(job)
  return true
end

-- `claimer` is the worker's registration: the tasks that it knows, those that need a thread, and how many threads it
-- has to spare (false: any number).
function Admission.claim_known(job, claimer)
  local task = job.need.task
  if claimer.known[task] then return Admission.claim_with_thread(job, claimer) end
  Admission.give_back(job)
  Ledger.set_aside(job, 'aside')
  if not Admission.unknown_seen[task] then
    Admission.unknown_seen[task] = true
    Admission.unknown[#Admission.unknown + 1] = task
  end
  return false
end

function Admission.claim_with_thread(job, claimer)
  if not claimer.spare or not claimer.threaded[job.need.task] then return Admission.claim(job) end
  if claimer.spare < 1 then
    if not job.aside then Ledger.set_aside(job, 'thread') end
    return false
  end
  local started = Admission.claim(job)
  if started then claimer.spare = claimer.spare - 1 end
  return started
end

-- Claims up to `want` jobs in rounds; whether it stopped because it had looked at enough.
function Admission.claim_many(want, claimer, ready)
  local looks = want + Admission.LOOK_MORE
  while want > 0 and looks > 0 do
    local asked = math.min(want, looks)
    local found = ready(asked)
    looks = looks - #found
    for _, job in ipairs(found) do
      if Admission.claim_known(job, claimer) then want = want - 1 end
    end
    if Admission.offer() == 0 and #found < asked then return false end
  end
  return want > 0
end

-- ── it ends, or leaves ────────────────────────────────────────────────────────────────────────────────────────────

function Admission.give_back(job)
  for ident in pairs(Ledger.let_go_all(job)) do Admission.touch(ident) end
  if job.offered_by then Admission.touch(job.offered_by) end
  if job.waiting_on then Admission.touch_line(job.waiting_on) end
end

-- ── waiters of touched keys ───────────────────────────────────────────────────────────────────────────────────────

-- How many units the waiters of a queue may be offered now.
function Admission.room(ident, queue)
  return Admission.free(ident) - Ledger.offered(ident, queue)
end

function Admission.offer_queue(ident, queue, straight)
  local room, count, struck = Admission.room(ident, queue), 0, false
  if room < 1 then return 0 end
  local members = Lines.first(Lines.waiting(ident, queue), math.min(room, Admission.OFFER_MOST))
  for place = 1, #members do
    local job = Ledger.waiter(members[place])
    if not job then
      Store.strike_waiter(ident, queue, members[place])
      struck = true
    else
      if job.units > room then break end
      room = room - job.units
      if straight then
        Ledger.take(ident, job, job.units, false)
        Ledger.start(job)
      else
        Ledger.make_ready(job, ident, job.units)
      end
      count = count + 1
    end
  end
  return struck and count + Admission.offer_queue(ident, queue, straight) or count
end

-- A short cut from waiting to running, in a step that will claim whatever it makes ready. Where no other job is ready,
-- and each waiter needs one slot of the key it waits on and nothing else, they cannot get in each other's way:
-- offering and claiming them comes to the same as starting them. Unless several queues wait on one key: their first
-- waiters compete for its room, and the claim decides in which order. `claim` is {want, claimer, served queues or
-- false}; a worker that names its queues claims them one after the other, so that the short cut takes a single queue.
function Admission.is_straight(claim, ids, waiting)
  if not claim or #ids > claim.want or next(Lines.suspected) ~= nil then return false end
  for i = 1, #waiting do
    if #waiting[i] > 1 then return false end
  end
  for _, line in pairs(Lines.readies) do
    if line.more > 0 then return false end
  end
  local claimer, threads = claim.claimer, 0
  for i = 1, #ids do
    local job = Store.jobs[ids[i]]
    if not job or job.state ~= 'waiting' then return false end
    local need, uses = job.need, Ledger.uses(job)
    if claimer.threaded[need.task] then threads = threads + 1 end
    if job.start_by or job.suspicion > 0 or (claim.served and need.queue ~= Store.jobs[ids[1]].need.queue) then return false end
    if #uses ~= 1 or job.units ~= 1 or job.holds or not claimer.known[need.task] then return false end
    if claim.served and not claim.served[need.queue] then return false end
    local rule = Book.rule(uses[1][1])
    if rule.lines_up or not rule.max or rule.max > Admission.OFFER_MOST then return false end
  end
  if claimer.spare then
    if threads > claimer.spare then return false end
    claimer.spare = claimer.spare - threads
  end
  return true
end

function Admission.head_at(ident, queue, rule)
  local member = rule.rate and Lines.first(Lines.waiting(ident, queue), 1)[1]
  if not member then return nil end
  if not rule.limit then return now end
  local meter, job = Ledger.meter(ident), Ledger.waiter(member)
  if not job then return now end
  return meter.kind.when(meter, rule, Ledger.offered(ident, queue) + job.units)
end

-- Whether time gives a key room: a rate, or a throttled key that opens again.
function Admission.is_timed(ident)
  local rule = Book.rule(ident)
  return rule.rate or rule.gate
end

-- One timer per timed key: when the first of its queues' heads will find its tokens, or when it opens further.
function Admission.timer_of(ident, queues)
  local rule, first = Book.rule(ident), nil
  if not rule.rate then return #queues > 0 and Admission.opens_at(rule) or nil end
  for _, queue in ipairs(queues) do
    local at = Admission.head_at(ident, queue, rule)
    if at and (not first or at < first) then first = at end
  end
  return first
end

function Admission.offer(claim)
  local touches, count = Admission.touches, 0
  if #touches == 0 then return 0 end
  Admission.touched, Admission.touches = {}, {}
  local waiting, ids = Ledger.expect(touches)
  local straight = Admission.is_straight(claim, ids, waiting)
  for i, ident in ipairs(touches) do
    local queues = waiting[i]
    for _, queue in ipairs(queues) do count = count + Admission.offer_queue(ident, queue, straight) end
    if Admission.is_timed(ident) then Ledger.arm(ident, Admission.timer_of(ident, queues)) end
  end
  return count
end
