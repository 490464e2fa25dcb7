-- The moves of a job: transitions.py, in Lua. Part of every script. Every move goes through admission.

-- ── a job comes ───────────────────────────────────────────────────────────────────────────────────────────────────

-- A scheduled job arrives if it is due; else sleeping workers learn when it will be.
function Transitions.come(job)
  if job.due <= now then
    Admission.arrive(job)
  else
    Store.call_workers = true
  end
end

function Transitions.find_rival(need, on_conflict)
  local rival = need.unique and Store.rival(need.tenant, need.unique)
  if not rival or on_conflict == 'return' then return rival end
  if on_conflict == 'raise' or rival.state == 'running' then
    Store.refuse('rival', rival.id, need.unique, rival.state)
  end
  Transitions.cancel_pending(rival)
  return nil
end

-- ── an attempt ends ───────────────────────────────────────────────────────────────────────────────────────────────

-- The job ends; what it held was given back before.
function Transitions.finish(job, state, outcome, error, result)
  Store.leave(job)
  job.state, job.outcome, job.error, job.result = state, outcome, error or false, result or false
  job.ended_at, job.expires_at = now, Lifecycle.expires_at(job, state)
  job.waiting_on, job.offered_by, job.units, job.aside, job.readied = false, false, 0, false, false
  Store.enter(job)
  Store.ended = true
end

-- An attempt that came to an end of its own clears its job of suspicion.
function Transitions.come_back(job, outcome, error, due, counts)
  if outcome ~= 'lost' and outcome ~= 'released' then Transitions.clear(job) end
  Store.remember(job, {job.attempt, outcome, job.started_at, now, job.worker or '', error or false})
  Store.change(job, {
    state = 'scheduled', due = due, worker = false, started_at = false, error = error or false,
    tries = job.tries - (counts and 0 or 1), refusals = false,
  })
  Transitions.come(job)
end

function Transitions.clear(job)
  job.suspicion, job.lost, job.lost_after = 0, 0, 0
end

function Transitions.close(job, state, outcome, error, result, due, counts)
  Admission.give_back(job)
  if state then
    Transitions.finish(job, state, outcome, error, result)
  else
    Transitions.come_back(job, outcome, error, due, counts)
  end
end

function Transitions.settle(job, kind, value, retry_in)
  Transitions.close(job, Lifecycle.settle(job, kind, value, retry_in))
end

function Transitions.release(job)
  Transitions.settle(job, 'released')
end

-- ── operators steer ───────────────────────────────────────────────────────────────────────────────────────────────

function Transitions.cancel_pending(job)
  Admission.give_back(job)
  Transitions.finish(job, 'cancelled', false, job.error)
end

function Transitions.cancel(job)
  if job.state == 'running' then
    Store.change(job, {cancel = true})
    Store.call_workers = true
  else
    Transitions.cancel_pending(job)
  end
end

Transitions.RESTARTED = {failed = true, cancelled = true}

function Transitions.restart(job)
  if job.outcome and job.started_at and job.ended_at then
    Store.remember(job,
      {job.attempt, job.outcome, job.started_at, job.ended_at, job.worker or '', job.error or false})
  end
  Transitions.clear(job)
  Store.change(job, {
    state = 'scheduled', due = now, tries = 0, worker = false, started_at = false, ended_at = false, outcome = false,
    error = false, result = false, expires_at = false, cancel = false, refusals = false,
  })
  Transitions.come(job)
end

function Transitions.expedite(job)
  Store.change(job, {due = now})
  Transitions.come(job)
end

-- Do it to each job whose state allows it; answers {id, done, state} for each.
function Transitions.each(ids, allowed, move)
  local verdicts = {}
  Store.load(ids)
  for i, id in ipairs(ids) do
    local job = Store.job(id)
    local done = job and allowed[job.state] and not (move == Transitions.restart and Transitions.has_rival(job))
    if done then move(job) end
    verdicts[i] = {id, done and true or false, job and job.state or false}
  end
  return verdicts
end

-- A restart must not make a second unfinished job of one unique key.
function Transitions.has_rival(job)
  return job.need.unique and Store.rival(job.need.tenant, job.need.unique) ~= nil
end

-- ── limits change ─────────────────────────────────────────────────────────────────────────────────────────────────

-- A cap that is put up counts what runs already. Cost: what runs; caps are rarely put up.
function Transitions.adopt(name)
  local ident, kind, what = 'c0:' .. name, string.match(name, '^(%a+):(.*)$')
  if (kind ~= 'task' and kind ~= 'queue') or not Book.is_cap(ident) then return end
  for _, worker in ipairs(call('ZRANGE', base .. 'leases', 0, -1)) do
    for _, job in ipairs(Transitions.running_of(worker)) do
      if job.need[kind] == what and not Ledger.holds(ident, job) then Ledger.take(ident, job, false) end
    end
  end
end

-- A limit's numbers changed, those of one key where `value` names it: look at the keys that are waited for, also since
-- this step only.
function Transitions.rules_changed(name, value, tenant)
  Book.changed()
  Transitions.adopt(name)
  if value and (tenant or Reading.are_alike({'waited'}, name)) then
    Admission.touch(Book.ident(name, value, tenant))
  else
    Transitions.touch_waited(name, false)
    Store.call_workers = Store.call_workers or Book.changing[name] ~= nil -- their sweeps go on with it
  end
  for _, key in ipairs(Ledger.keys) do
    if Ledger.has_moved(key) and Book.key(key.ident).name == name then Admission.touch(key.ident) end
  end
end

-- A concurrency limit that is not raised gives no key room: nothing has to be looked at, however many keys there are.
function Transitions.may_give_room(limit, before, after)
  return (limit and limit.kind == 'rate') or not before or not after or after > before
end

Transitions.SLICE, Transitions.OFFERS = 50, 50

-- Look at the next keys of a limit that are waited for: so many, or those whose waiters will be offered so much room.
function Transitions.touch_waited(name, after)
  local members, beyond = Reading.slice({'waited'}, name, after, Transitions.SLICE)
  local idents, last, offers = {}, members[#members], 0
  for i, member in ipairs(members) do idents[i] = Reading.ident(member) end
  local queues = Ledger.expect_offers(idents)
  for i, ident in ipairs(idents) do
    Admission.touch(ident)
    for _, queue in ipairs(queues[i]) do
      local size = Lines.size(Lines.waiting(ident, queue))
      offers = offers + math.max(0, math.min(Admission.room(ident, queue), Admission.OFFER_MOST, size))
    end
    if offers >= Transitions.OFFERS and i < #members then
      last, beyond = members[i], true
      break
    end
  end
  if beyond or Book.changing[name] then Book.keep_changing(name, beyond and last) end
end

-- Act on the next slice of a change of limits; whether something is left.
function Transitions.go_on()
  local name, after = next(Book.changing)
  if name then Transitions.touch_waited(name, after) end
  return next(Book.changing) ~= nil
end

-- Write what differs, and answer whether go_on has something to do for it; a limit is {name, kind, max, period, burst,
-- algorithm}. A name does not change its kind: jobs that use the old one would no longer be limited.
function Transitions.declare(limits)
  local left = false
  for _, l in ipairs(limits) do
    local value, known = pack(l), Book.limit(l[1])
    if known and known.kind ~= l[2] then Store.refuse('kind', l[1], known.kind, l[2]) end
    if call('HGET', base .. 'limits', l[1]) ~= value then
      Book.change('limit', value)
      Write.field('limits', l[1], value)
      local limit = {name = l[1], kind = l[2], max = l[3] or nil, period = l[4], burst = l[5] or nil, algorithm = l[6]}
      Book.limits[l[1]] = limit
      if known and not Transitions.may_give_room(limit, known.max, limit.max) then
        Book.changed()
      else
        Transitions.rules_changed(l[1])
        left = left or Book.changing[l[1]] ~= nil
      end
    end
  end
  return left
end

-- The number that an override of this scope would replace, where that is one for all keys of the scope; else nil.
function Transitions.replaced(name, value, tenant)
  local stored, limit = call('HGET', base .. 'overrides', Book.scope(name, value, tenant)), Book.limit(name)
  if stored then return parse(stored)[2] or nil end
  return not value and not tenant and limit and limit.kind == 'concurrency' and limit.max or nil
end

-- An operator's word comes into force ({name, max, value, tenant, by, at, why, until}), or is taken back (false).
function Transitions.set_override(name, value, tenant, override)
  local scope, before = Book.scope(name, value, tenant), override and Transitions.replaced(name, value, tenant)
  Book.change('override', scope, override)
  Write.field('overrides', scope, override and pack(override))
  Write.score('untils', scope, override and override[8])
  Book.staged[scope] = override
  if override and not Transitions.may_give_room(Book.limit(name), before, override[2]) then
    Book.changed()
  else
    Transitions.rules_changed(name, value, tenant)
  end
end

function Transitions.compute(ident, number)
  Book.change('computed', ident, number)
  Write.field('computed', ident, pack({number, now}))
  Write.score('computes', Book.by_name(ident), 0)
  Write.score('refreshed', ident, now)
  Book.computed[ident] = number
  Book.changed()
  Admission.touch(ident)
end

-- ── a job is taken over ───────────────────────────────────────────────────────────────────────────────────────────

-- What Python decided on: arrival, state and number of attempts must be what they were when it looked.
function Transitions.is_as_seen(job, seen)
  if not job or not seen then return not job and not seen end
  return job.seq == seen[1] and job.state == seen[2] and job.past == seen[3]
end

function Transitions.write_import(job, way, taken)
  local state, attempts = taken[1], taken[4]
  local over = Store.ENDED[state]
  local last, kept = attempts[#attempts], over and #attempts - 1 or #attempts
  local need = job.need
  if need.retry ~= way.need.retry then
    job.need = Store.need(pack(
      {need.task, need.queue, need.tenant, need.priority, need.uses, way.need.retry, need.unique, need.retention}))
  end
  Store.forget_past(job)
  for number = 1, kept do Store.remember(job, attempts[number]) end
  local fields = {
    state = state, tries = taken[3], attempt = #attempts, waiting_on = false, offered_by = false, units = 0,
    aside = false, refusals = false, cancel = false, error = last and last[6] or false, result = false,
    worker = false, started_at = false, ended_at = false, outcome = false, expires_at = false, readied = false,
  }
  if over then
    fields.worker, fields.started_at, fields.ended_at, fields.outcome = last[5], last[3], last[4], last[2]
    fields.expires_at = Lifecycle.expires_at(job, state)
    Store.ended = true
  else
    fields.due = taken[2] or now + way.delay
  end
  Store.change(job, fields)
  if not over then Transitions.come(job) end
end

-- One record: {enqueued_at, seen, refusal or {state, due, tries, attempts}} of the job with this id. Answers {state,
-- refusal}, or nil when the job has changed since Python looked at it.
function Transitions.take_over(id, spec, way, record)
  local need, seen, taken = way.need, record[2], record[3]
  local wrong = Book.wrong_use(need.uses)
  if wrong then return {false, wrong} end
  local job = Store.job(id)
  if not Transitions.is_as_seen(job, seen) then return nil end
  local state = job and job.state
  if type(taken) == 'string' then return {state or false, {'text', taken}} end
  if not job or Store.ENDED[state] then
    local unique, tenant = (job and job.need or need).unique, (job and job.need or need).tenant
    local rival = unique and Store.rival(tenant, unique)
    if rival and not Store.ENDED[taken[1]] then
      return {state or false, {'rival', rival.id, unique, rival.state}}
    end
  end
  if not job then
    job = Store.add(id, spec, need, record[1] or now, taken[2] or now + way.delay)
  elseif not Store.ENDED[state] then
    Admission.give_back(job)
  end
  Transitions.write_import(job, way, taken)
  return {job.state, false}
end
