-- The ledger: which jobs hold a key, wait on it and were offered it, and what was spent of it. Part of every script.
-- What admission.py calls Ledger, with the same names.

-- What this step knows of a key: how many hold it, as stored and now; which queues have waiters on it as stored, its
-- lines by queue; and, when all is decided, which records of holders are to be written or deleted. Kept like the
-- tables of lines.
function Ledger.at(ident)
  local key = Ledger.shelf[ident]
  if not key then
    key = {
      ident = ident, name = base .. 'held:' .. ident, turn = 0, lines = {}, held = false, stored = false,
      queues = false, offers = false, promised = false, comers = {}, come = 0, leavers = {}, left = 0, larger = 0,
      was_larger = 0,
    }
    Ledger.shelf[ident], Transaction.shelf.known = key, Transaction.shelf.known + 1
  elseif key.turn == turn then
    return key
  end
  key.turn, key.held, key.stored, key.queues, key.larger, key.was_larger = turn, false, false, false, 0, 0
  key.offers, key.promised, key.come, key.left = false, false, 0, 0
  Ledger.keys[#Ledger.keys + 1] = key
  return key
end

-- The keys of a job in canonical order. Python stores the caps of its task and queue among them, marked; they count
-- while they are declared or overridden. A job without limits of its own has nothing stored: its caps are made here.
function Ledger.uses(job)
  local need = job.need
  if need.all_at ~= Book.stamp then
    need.all, need.all_at = need.uses and Ledger.in_force(need.uses) or Ledger.caps(need.queue, need.task), Book.stamp
    need.slots = nil
  end
  return need.all
end

function Ledger.in_force(uses)
  local all = {}
  for _, use in ipairs(uses) do
    if not use[3] or Book.is_cap(use[1]) then all[#all + 1] = use end
  end
  return all
end

function Ledger.caps(queue, task)
  local caps = {}
  for _, ident in ipairs({'c0:queue:' .. queue, 'c0:task:' .. task}) do
    if Book.is_cap(ident) then caps[#caps + 1] = {ident, 1} end
  end
  return caps
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

-- Units promised to ready jobs, by queue and key: a sum, since tokens have no records to be counted. It moves wherever
-- a job's own `offered_by` changes, and nowhere else. `Ledger.none_ready`: this step has seen that there are no ready
-- jobs, so that nothing is promised.
function Ledger.offered(ident, queue)
  local key = Ledger.at(ident)
  local units = key.offers and key.offers[queue]
  if units then return units end
  if Ledger.none_ready then return 0 end
  return Ledger.know_offers(key, queue, call('HGET', base .. 'offers', Text.join(queue, ident)))
end

function Ledger.know_offers(key, queue, text)
  local units = tonumber(text or 0)
  key.offers, key.promised = key.offers or {}, key.promised or {}
  key.offers[queue], key.promised[queue] = units, units
  return units
end

function Ledger.promise(job, by)
  local ident, queue = job.offered_by, job.need.queue
  local units = Ledger.offered(ident, queue) + by * job.units
  local key = Ledger.at(ident)
  key.offers, key.promised = key.offers or {}, key.promised or {}
  key.offers[queue] = units
end

function Ledger.has_waiters(ident, queue)
  return Lines.size(Lines.waiting(ident, queue)) > 0
end

-- The queues with waiters on keys, as stored: read for all of them at once.
function Ledger.read_queues(idents)
  local missing = {}
  for _, ident in ipairs(idents) do
    if not Ledger.at(ident).queues then missing[#missing + 1] = ident end
  end
  for first = 1, #missing, 1000 do
    local found = call('HMGET', base .. 'waitqs', unpack(missing, first, math.min(first + 999, #missing)))
    for i, text in ipairs(found) do Ledger.at(missing[first + i - 1]).queues = Ledger.queues_in(text) end
  end
end

-- Most keys are waited on in the same queue: lists that were read are remembered by their text, and never changed.
function Ledger.queues_in(text)
  if not text then return Lines.NONE end
  local queues = Transaction.shelf.queues[text]
  if not queues then
    queues = parse(text)
    Transaction.shelf.queues[text], Transaction.shelf.known = queues, Transaction.shelf.known + 1
  end
  return queues
end

function Ledger.stored_queues(ident)
  local key = Ledger.at(ident)
  if not key.queues then Ledger.read_queues({ident}) end
  return key.queues
end

-- Whether this step has put waiters of a key in, or taken them out.
function Ledger.has_moved(key)
  for _, line in pairs(key.lines) do
    if line.turn == turn and (line.more > 0 or line.less > 0) then return true end
  end
  return false
end

-- The queues with waiters on a key: those stored, and those that this step parked jobs in.
function Ledger.queues_waiting(ident)
  local stored, key = Ledger.stored_queues(ident), Ledger.at(ident)
  if not Ledger.has_moved(key) then return stored end
  local found, here = {}, key.lines
  for _, queue in ipairs(stored) do
    local line = here[queue]
    if not line or line.turn ~= turn or (line.more == 0 and line.less == 0) or Lines.size(line) > 0 then
      found[#found + 1] = queue
    end
  end
  for queue, line in pairs(here) do
    if line.turn == turn and line.more > 0 and Lines.size(line) > 0 and line.stored == 0 then
      found[#found + 1] = queue
    end
  end
  return found
end

-- The job of a line's member, which is its rank; nil if it does not wait.
function Ledger.waiter(member)
  local job = Store.job(sub(member, 47))
  if not job or job.state ~= 'waiting' then return nil end
  job.rank = member
  return job
end

-- Read what is promised of these keys, all at once. Answers the queues that wait on each.
function Ledger.expect_offers(idents)
  local queues = {}
  Ledger.read_queues(idents)
  for i = 1, #idents do queues[i] = Ledger.queues_waiting(idents[i]) end
  if not Ledger.none_ready then Ledger.read_offers(idents, queues) end
  return queues
end

-- These keys are about to be offered: read their first waiters, too. Answers also the ids of those waiters.
function Ledger.expect(idents)
  local queues, ids, count = Ledger.expect_offers(idents), {}, 0
  for i, ident in ipairs(idents) do
    for _, queue in ipairs(queues[i]) do
      local room = Admission.room(ident, queue)
      if room > 0 then
        local members = Lines.first(Lines.waiting(ident, queue), math.min(room, Admission.OFFER_MOST))
        for place = 1, #members do
          count = count + 1
          ids[count] = sub(members[place], 47)
        end
      end
    end
  end
  Store.load(ids)
  return queues, ids
end

function Ledger.read_offers(idents, queues)
  local fields, keys, names = {}, {}, {}
  for i, ident in ipairs(idents) do
    local key = Ledger.at(ident)
    for _, queue in ipairs(queues[i]) do
      if not (key.offers and key.offers[queue]) then
        local place = #fields + 1
        fields[place], keys[place], names[place] = Text.join(queue, ident), key, queue
      end
    end
  end
  if #fields < 2 or #fields > 2000 then return end
  for i, units in ipairs(call('HMGET', base .. 'offers', unpack(fields))) do
    Ledger.know_offers(keys[i], names[i], units)
  end
end

-- Of an estimated rate the job remembers what it spent: {units, at, mark}.
function Ledger.spend(ident, pace, units, job)
  local meter = Ledger.meter(ident)
  meter.kind.spend(meter, pace, units, job)
  if pace.estimated then Ledger.remember_spending(ident, job, {units, now, meter.kind.mark(meter)}) end
end

function Ledger.remember_spending(ident, job, spending)
  local spent = {}
  for key, other in pairs(job.spent or spent) do spent[key] = other end
  spent[ident], job.spent = spending, spent
  Store.touch(job)
end

-- What a start spent was really so much.
function Ledger.correct(ident, pace, job, units)
  local meter, spent = Ledger.meter(ident), job.spent[ident]
  meter.kind.correct(meter, pace, spent, units, job)
  Ledger.remember_spending(ident, job, {units, spent[2], spent[3]})
end

-- A rate has no tokens before this time.
function Ledger.close(ident, pace, till)
  local meter = Ledger.meter(ident)
  meter.kind.close(meter, pace, till)
end

function Ledger.start(job)
  Store.leave(job, true)
  job.state, job.worker, job.started_at = 'running', Ledger.claimer, now
  if job.attempt == 0 and job.need.unique_for then job.unique_until = now + job.need.unique_for end
  job.attempt, job.tries, job.start_by = job.attempt + 1, job.tries + 1, false
  job.ended_at, job.outcome, job.error, job.result = false, false, false, false
  job.offered_by, job.waiting_on, job.units, job.aside, job.readied = false, false, 0, false, false
  job.holds = Ledger.slots(job)
  Store.enter(job)
  Ledger.started[#Ledger.started + 1] = job
end

function Ledger.make_ready(job, offered_by, units)
  Store.leave(job)
  job.state, job.waiting_on, job.offered_by, job.units, job.readied = 'ready', false, offered_by, units, true
  Store.enter(job)
  if job.holds then Ledger.limit_reservations(job, now + settings.reservation_ttl) end
end

function Ledger.park(job, use, refusals)
  Store.leave(job)
  job.state, job.waiting_on, job.units, job.refusals = 'waiting', use[1], use[2], refusals
  job.offered_by, job.aside, job.readied = false, false, false
  Store.enter(job)
  if job.holds then Ledger.limit_reservations(job, false) end
end

-- Its task is unknown to the worker that met it ('aside'), or that has no thread left for it ('thread'): then it keeps
-- what it was offered.
function Ledger.set_aside(job, why)
  Store.leave(job)
  job.aside = why
  if why == 'aside' then job.offered_by, job.units = false, 0 end
  Store.enter(job)
end

function Ledger.arm(ident, at)
  Write.score('timers', ident, at)
end

-- Holders and promises that have changed; and which keys are held, by name: for lists of limits, and for floating
-- limits in use.
function Ledger.write()
  for _, job in ipairs(Store.dirty) do
    local was, holds = job.was_holds, job.holds
    if was and was ~= holds then Ledger.note_leaver(job.id, was.keys, holds and holds.keys or Lines.NONE) end
    if holds then Ledger.note_comer(job, holds.keys, was and was.keys or Lines.NONE) end
  end
  for _, key in ipairs(Ledger.keys) do
    -- Newcomers before leavers: the hash of a key that is handed on is never empty.
    if key.come > 0 then Write.some('HSET', key.name, key.comers, key.come) end
    if key.left > 0 then Write.some('HDEL', key.name, key.leavers, key.left) end
    if key.offers then Ledger.write_offers(key) end
    local holders = key.stored and key.held - key.larger
    if holders and (holders > 0) ~= (key.stored > 0) then
      Write.score('helds', Book.by_name(key.ident), holders > 0 and 0)
    end
    if key.larger ~= key.was_larger then
      Write.field('larger', key.ident, key.larger ~= 0 and Text.whole(key.larger))
    end
  end
end

function Ledger.write_offers(key)
  for queue, units in pairs(key.offers) do
    if units ~= (key.promised[queue] or 0) then
      Write.field('offers', Text.join(queue, key.ident), units ~= 0 and format('%d', units))
    end
  end
end
