-- The moves of a job: moves.py, in Lua. Part of every script. Every move goes through admission.

-- ── a job comes ───────────────────────────────────────────────────────────────────────────────────────────────────

-- {id, delay, at, on_conflict, number of the argument with its spec; its need is the next one}.
function Moves.newcomer(n)
  local need = arguments[n[5] + 1]
  local f = parse(need)
  return {
    id = n[1], delay = n[2], at = n[3], on_conflict = n[4], spec = arguments[n[5]], need = need, task = f[1], queue = f[2],
    tenant = f[3], priority = f[4], uses = f[5], retry = f[6], unique = f[7], retention = f[8],
  }
end

-- A scheduled job arrives if it is due; else somebody should know when it will be.
function Moves.come(job)
  if job.life.due <= now then
    Admission.arrive(job)
  else
    if job.fresh then Store.change(job, {}) end
    Store.call_workers = true
  end
end

function Moves.find_rival(new)
  local rival = new.unique and Store.rival(new.tenant, new.unique)
  if not rival or new.on_conflict == 'return' then return rival end
  if new.on_conflict == 'raise' or rival.life.state == 'running' then
    Store.refuse('rival', rival.id, new.unique, rival.life.state)
  end
  Moves.cancel_pending(rival)
  return nil
end

-- Store new jobs, all or none; answers {id, state, created} for each.
function Moves.enqueue(jobs)
  local taken, new = {}, {}
  for i, packed in ipairs(jobs) do
    local job = Moves.newcomer(packed)
    if taken[job.id] or call('EXISTS', base .. 'job:' .. job.id) == 1 then Store.refuse('exists', job.id) end
    local wrong = Book.wrong_use(job.uses)
    if wrong then Store.refuse(unpack(wrong)) end
    taken[job.id], new[i] = true, job
  end
  local answers = {}
  for i, job in ipairs(new) do
    local rival = Moves.find_rival(job)
    if rival then
      answers[i] = {rival.id, rival.life.state, false}
    else
      local added = Store.add(job, now, job.at or now + job.delay)
      Moves.come(added)
      answers[i] = {added.id, added.life.state, true}
    end
  end
  return answers
end

-- ── an attempt ends ───────────────────────────────────────────────────────────────────────────────────────────────

function Moves.finish(job, state, fields)
  fields.state, fields.ended_at, fields.expires_at = state, now, Lifecycle.expires_at(job, state)
  fields.waiting_on, fields.offered_by, fields.units, fields.aside = false, false, 0, false
  Store.change(job, fields)
  Ledger.readied[job.id] = nil
  Store.ended = true
end

function Moves.come_back(job, verdict)
  local life = job.life
  Store.remember(job, {life.attempt, verdict.outcome, life.started_at, now, life.worker or '', verdict.error or false})
  Store.change(job, {
    state = 'scheduled', due = verdict.due, worker = false, started_at = false, error = verdict.error or false,
    tries = life.tries - (verdict.counts and 0 or 1), refusals = false,
  })
  Moves.come(job)
end

function Moves.close(job, verdict)
  Admission.give_back(job)
  if not verdict.state then
    Moves.come_back(job, verdict)
    return
  end
  if verdict.result then job.result = verdict.result end
  local fields = {outcome = verdict.outcome, error = verdict.error or false, result = verdict.result and true or false}
  Moves.finish(job, verdict.state, fields)
end

function Moves.settle(job, report) Moves.close(job, Lifecycle.settle(job, report)) end
function Moves.release(job) Moves.settle(job, {'released', job.id, job.life.attempt}) end
function Moves.lose(job) Moves.close(job, Lifecycle.lose(job)) end

-- ── somebody steers ───────────────────────────────────────────────────────────────────────────────────────────────

function Moves.cancel_pending(job)
  Admission.give_back(job)
  Moves.finish(job, 'cancelled', {outcome = false})
end

function Moves.cancel(job)
  if job.life.state == 'running' then
    Store.change(job, {cancel = true})
    Store.call_workers = true
  else
    Moves.cancel_pending(job)
  end
end

function Moves.restart(job)
  local life = job.life
  if life.outcome and life.started_at and life.ended_at then
    Store.remember(job,
      {life.attempt, life.outcome, life.started_at, life.ended_at, life.worker or '', life.error or false})
  end
  if life.result then job.result = false end
  Store.change(job, {
    state = 'scheduled', due = now, tries = 0, worker = false, started_at = false, ended_at = false, outcome = false,
    error = false, result = false, expires_at = false, cancel = false, refusals = false,
  })
  Moves.come(job)
end

function Moves.expedite(job)
  Store.change(job, {due = now})
  Moves.come(job)
end

-- Do it to each job whose state allows it; answers {id, done, state} for each.
function Moves.each(ids, allowed, move)
  local verdicts = {}
  for i, id in ipairs(ids) do
    local job = Store.job(id)
    local done = job and allowed[job.life.state] and not (move == Moves.restart and Moves.has_rival(job))
    if done then move(job) end
    verdicts[i] = {id, done and true or false, job and job.life.state or false}
  end
  return verdicts
end

-- A restart must not make a second unfinished job of one unique key.
function Moves.has_rival(job)
  return job.unique and Store.rival(job.tenant, job.unique) ~= nil
end

-- ── limits change ─────────────────────────────────────────────────────────────────────────────────────────────────

-- A cap that is put up counts what runs already. Cost: what runs; caps are rarely put up.
function Moves.adopt(name)
  local ident, kind, what = 'c0:' .. name, string.match(name, '^(%a+):(.*)$')
  if (kind ~= 'task' and kind ~= 'queue') or not Book.is_cap(ident) then return end
  for _, worker in ipairs(call('ZRANGE', base .. 'leases', 0, -1)) do
    for _, id in ipairs(call('ZRANGE', base .. 'run:' .. worker, 0, -1)) do
      local job = Store.job(id)
      if job.life.state == 'running' and job[kind] == what and not Ledger.holds(ident, job) then
        Ledger.take(ident, job, false)
      end
    end
  end
end

-- A limit's numbers changed: look at all keys of it that are waited for.
function Moves.rules_changed(name)
  Book.changed()
  Moves.adopt(name)
  for _, ident in ipairs(Store.of_name('waited', name)) do Admission.touch(ident) end
  for ident in pairs(Lines.on) do
    if Book.key(ident).name == name then Admission.touch(ident) end
  end
end

-- Write what differs; a limit is {name, kind, max, period, burst, algorithm}.
function Moves.declare(limits)
  for _, l in ipairs(limits) do
    local value = pack(l)
    if call('HGET', base .. 'limits', l[1]) ~= value then
      Write.field('limits', l[1], value)
      Book.limits[l[1]] = {
        name = l[1], kind = l[2], max = l[3] or nil, period = l[4], burst = l[5] or nil, algorithm = l[6],
      }
      Moves.rules_changed(l[1])
    end
  end
end

-- An operator's word comes into force ({name, max, value, tenant, by, at, why, until}), or is taken back (false).
function Moves.set_override(name, scope, override)
  Write.field('overrides', scope, override and pack(override))
  Write.score('untils', scope, override and override[8])
  Book.staged[scope] = override
  Moves.rules_changed(name)
end

function Moves.compute(ident, number)
  Write.field('computed', ident, pack({number, now}))
  Book.computed[ident] = number
  Moves.rules_changed(Book.key(ident).name)
end

-- ── a job is taken over ───────────────────────────────────────────────────────────────────────────────────────────

-- What Python decided on: arrival, state and number of attempts must be what they were when it looked.
function Moves.is_as_seen(job, seen)
  if not job or not seen then return not job and not seen end
  return job.seq == seen[1] and job.life.state == seen[2] and (job.life.past or 0) == seen[3]
end

function Moves.write_import(job, new, taken)
  local state, attempts = taken[1], taken[4]
  local over = Store.ENDED[state]
  local last, kept = attempts[#attempts], over and #attempts - 1 or #attempts
  if job ~= new then
    job.retry = new.retry
    job.need = pack({job.task, job.queue, job.tenant, job.priority, job.uses, job.retry, job.unique, job.retention})
  end
  if job.life.result then job.result = false end
  job.past, job.life.past = #attempts > 0 and '' or nil, nil
  for number = 1, kept do Store.remember(job, attempts[number]) end
  local fields = {
    state = state, tries = taken[3], attempt = #attempts, waiting_on = false, offered_by = false, units = 0,
    aside = false, refusals = false, cancel = false, error = last and last[6] or false, result = false,
    worker = false, started_at = false, ended_at = false, outcome = false, expires_at = false,
  }
  if over then
    fields.worker, fields.started_at, fields.ended_at, fields.outcome = last[5], last[3], last[4], last[2]
    fields.expires_at = Lifecycle.expires_at(job, state)
    Store.ended = true
  else
    fields.due = taken[2] or now + new.delay
  end
  Ledger.readied[job.id] = nil
  Store.change(job, fields)
  if not over then Moves.come(job) end
end

-- One record: {job, enqueued_at, seen, refusal or {state, due, tries, attempts}}. Answers {state, refusal}, or nil when
-- the job has changed since Python looked at it.
function Moves.take_over(record)
  local new, seen, taken = Moves.newcomer(record[1]), record[3], record[4]
  local wrong = Book.wrong_use(new.uses)
  if wrong then return {false, wrong} end
  local job = Store.job(new.id)
  if not Moves.is_as_seen(job, seen) then return nil end
  local state = job and job.life.state
  if type(taken) == 'string' then return {state or false, {'text', taken}} end
  if not job or Store.ENDED[state] then
    local unique, tenant = (job or new).unique, (job or new).tenant
    local rival = unique and Store.rival(tenant, unique)
    if rival and not Store.ENDED[taken[1]] then
      return {state or false, {'rival', rival.id, unique, rival.life.state}}
    end
  end
  if not job then
    local due = taken[2] or now + new.delay
    job = Store.add(new, record[2] or now, due)
  elseif not Store.ENDED[state] then
    Admission.give_back(job)
  end
  Moves.write_import(job, new, taken)
  return {job.life.state, false}
end
