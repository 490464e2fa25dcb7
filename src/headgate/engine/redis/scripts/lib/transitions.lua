-- The moves of a job: transitions.py, in Lua. Part of every script. Every move goes through admission.

-- ── a job comes ───────────────────────────────────────────────────────────────────────────────────────────────────

-- A scheduled job arrives if it is due; else sleeping workers learn when it will be. `entering`: it is being enqueued,
-- and can still be refused; `returning`: it takes its old place again.
function Transitions.come(job, entering, returning)
  if job.due > now then
    Store.call_workers = true
    return
  end
  if job.need.brings then Transitions.bring(job.need.brings, true) end
  if job.need.share and not returning then Shares.tag(job) end
  Admission.arrive(job, entering, returning)
end

-- The job that has a unique key; that of one that has ended may have become free by time.
function Transitions.taken_by(need)
  local rival = need.unique and Store.rival(need.tenant, need.unique)
  if not rival or not Store.ENDED[rival.state] or not rival.unique_until or rival.unique_until > now then return rival end
  Store.change(rival, {unique_until = false})
  return nil
end

-- `way` is what the newcomer brings, `spec` what Python keeps of it.
function Transitions.find_rival(way, spec)
  local need, on_conflict = way.need, way.on_conflict
  local rival = Transitions.taken_by(need)
  if not rival or on_conflict == 'return' then return rival end
  if on_conflict == 'raise' or not Transitions.PENDING[rival.state] then
    Store.refuse('rival', rival.id, need.unique, rival.state)
  end
  if on_conflict == 'update' then
    Transitions.update(rival, way, spec)
    return rival
  end
  Transitions.cancel_pending(rival)
  return nil
end

Transitions.PENDING = {scheduled = true, ready = true, waiting = true}

-- A job that has not started takes over what the newcomer brings, and its due time within a bound.
function Transitions.update(job, way, spec)
  local need = way.need
  if job.attempt > 0 then Store.refuse('started', job.id, need.unique) end
  if job.need.task ~= need.task then Store.refuse('other_task', job.id, need.unique, job.need.task) end
  local due = way.due
  if way.at_most then due = math.min(due, job.enqueued_at + way.at_most) end
  Admission.give_back(job)
  Store.leave(job)
  local old = Store.specs[job.id] or call('GET', base .. 'spec:' .. job.id)
  local share = job.need.share and job.need.queue == need.queue and need.share
  Store.specs[job.id] = Transitions.updated_spec(old, spec, share)
  job.need = Store.changed_need(job.need, Transitions.uses_in(job.need, need.uses), job.need.retry, true, share)
  job.state, job.due, job.rank, job.start_by, job.waiting_on = 'scheduled', due, false, way.start_by, false
  job.offered_by, job.units, job.refusals, job.aside, job.readied = false, 0, false, false, false
  Store.enter(job)
  Transitions.bring(need.brings)
  Transitions.come(job)
end

-- What Python alone reads of a job (records.py: Spec), with arguments, uses, metadata, headers and maybe the share of
-- another.
Transitions.TAKEN_OVER = {[3] = true, [6] = true, [9] = true, [11] = true}
Transitions.SHARE = 12

function Transitions.updated_spec(old, new, share)
  local old_parts, new_parts = Transitions.parts(old), Transitions.parts(new)
  for place, part in ipairs(new_parts) do
    local taken = Transitions.TAKEN_OVER[place] or (share and place == Transitions.SHARE)
    if taken or not old_parts[place] then old_parts[place] = part end
  end
  return string.char(0x90 + #old_parts) .. table.concat(old_parts)
end

-- The elements of a packed list of up to fifteen, each as it is packed.
function Transitions.parts(text)
  local parts, at = {}, 1
  for place = 1, string.byte(text, 1) - 0x90 do
    local next = cmsgpack.unpack_one(text, at)
    if next < 0 then next = #text end
    parts[place], at = sub(text, at + 1, next), next
  end
  return parts
end

-- Uses of a job that come to one in another queue: the caps are those of its own.
function Transitions.uses_in(need, uses)
  local found, caps = {}, {['c0:queue:' .. need.queue] = true, ['c0:task:' .. need.task] = true}
  if not uses then return false end
  for _, use in ipairs(uses) do
    if use[3] ~= true then found[#found + 1], caps[use[1]] = use, nil end
  end
  if #found == 0 then return false end
  for ident in pairs(caps) do found[#found + 1] = {ident, 1, true} end
  table.sort(found, function(a, b) return Transitions.stands_before(Book.key(a[1]), Book.key(b[1])) end)
  return found
end

-- The canonical order of keys (rule 6).
function Transitions.stands_before(a, b)
  if a.rate ~= b.rate then return b.rate end
  local first, second = a.value and a.name .. '=' .. a.value or a.name, b.value and b.name .. '=' .. b.value or b.name
  if first ~= second then return first < second end
  return a.tenant < b.tenant
end

-- The newest job's numbers for its keys are in force from now on: {ident, number} each. A job that comes `again` is not
-- the newest: it brings its number only where the key's was forgotten meanwhile.
function Transitions.bring(brings, again)
  for _, use in ipairs(brings or Lines.NONE) do
    local ident, number = use[1], use[2]
    local limit = Book.limit(Book.key(ident).name)
    local old = limit and limit.per_key and Book.find_numbers(ident) or Lines.NONE
    if limit and limit.per_key and old[4] ~= number and not (again and old[4]) then
      local differs = old[4] and Transitions.is_in_use(ident) and old[4] or false
      Book.put_numbers(ident, {old[1] or false, old[2] or false, old[3] or false, number, differs, now})
      Admission.touch(ident)
    end
  end
end

function Transitions.is_in_use(ident)
  return not Admission.is_rate(ident) and Ledger.held(ident) > 0 or Full.count_waiting(ident) > 0
end

-- ── an attempt ends ───────────────────────────────────────────────────────────────────────────────────────────────

-- The job ends; what it held was given back before.
function Transitions.finish(job, state, outcome, error, result)
  Store.leave(job)
  job.state, job.outcome, job.error, job.result = state, outcome, error or false, result or false
  job.ended_at, job.expires_at = now, Lifecycle.expires_at(job, state)
  local till = job.unique_until
  if till then job.expires_at, job.unique_until = math.max(job.expires_at, till), till > now and till end
  job.waiting_on, job.offered_by, job.units, job.aside, job.readied = false, false, 0, false, false
  Store.enter(job)
  Store.ended = true
end

-- An attempt that came to an end of its own clears its job of suspicion.
function Transitions.come_back(job, outcome, error, due, counts)
  local as_it_was = Transitions.BACK_AS_THEY_WERE[outcome]
  if not as_it_was then Transitions.clear(job) end
  Store.remember(job, {job.attempt, outcome, job.started_at, now, job.worker or '', error or false})
  Store.change(job, {
    state = 'scheduled', due = due, worker = false, started_at = false, error = error or false,
    tries = job.tries - (counts and 0 or 1), refusals = false,
  })
  Transitions.come(job, false, as_it_was)
end

-- Outcomes after which a job takes its old place again: it did not come to an end by itself.
Transitions.BACK_AS_THEY_WERE = {lost = true, released = true, throttled = true}

function Transitions.clear(job)
  job.suspicion, job.lost, job.lost_after = 0, 0, 0
end

function Transitions.close(job, state, outcome, error, result, due, counts)
  Admission.give_back(job)
  job.spent = false
  if job.need.share and job.need.by_time then Shares.learn_time(job) end
  if state then
    Transitions.finish(job, state, outcome, error, result)
  else
    Transitions.come_back(job, outcome, error, due, counts)
  end
end

-- The value of a throttled one is its delay, `retry_in` the limit that it names, or false.
function Transitions.settle(job, kind, value, retry_in)
  if kind == 'throttled' and not Transitions.throttle(job, value, retry_in) then kind = 'snoozed' end
  Transitions.close(job, Lifecycle.settle(job, kind, value, retry_in))
end

-- Close the keys that the report means; answers whether there are any.
function Transitions.throttle(job, delay, name)
  local named, rates, own = {}, {}, {}
  for _, use in ipairs(Ledger.uses(job)) do
    local ident = use[1]
    if Book.key(ident).name == name then named[#named + 1] = ident end
    if Admission.is_rate(ident) then rates[#rates + 1] = ident end
    if sub(ident, 1, 8) ~= 'c0:task:' and sub(ident, 1, 9) ~= 'c0:queue:' then own[#own + 1] = ident end
  end
  local keys = name and named or #rates > 0 and rates or own
  for _, ident in ipairs(keys) do Transitions.close_key(ident, math.min(now + delay, Lifecycle.LATEST), delay) end
  return #keys > 0
end

Transitions.SHORTEST_STEP = 50000 -- a throttled key opens by one slot at a time, and not more often than this

function Transitions.close_key(ident, till, delay)
  local rule = Book.rule(ident)
  if not rule.rate then
    local parts = math.max(rule.max or Admission.GATE_STEPS, 1)
    local step = math.max((delay - math.fmod(delay, parts)) / parts, Transitions.SHORTEST_STEP)
    if not rule.gate or rule.gate[1] < till then Book.put_gate(ident, {till, step}) end
  elseif rule.limit and rule.limit ~= 0 then
    Ledger.close(ident, rule, till)
  end
  Admission.touch(ident)
end

-- A throttled key has opened again as far as it can.
function Transitions.open_wide(ident)
  Book.put_gate(ident, false)
  Ledger.arm(ident, false)
  Admission.touch(ident)
end

-- A running attempt says what it really spent of a limit.
function Transitions.correct(job, name, units)
  local idents = {}
  for ident in pairs(job.spent or idents) do idents[#idents + 1] = ident end
  for _, ident in ipairs(idents) do
    local rule = Book.rule(ident)
    if Book.key(ident).name == name and rule.rate and rule.limit and rule.limit ~= 0 then
      Ledger.correct(ident, rule, job, units)
      Admission.touch(ident)
    end
  end
end

function Transitions.release(job)
  Transitions.settle(job, 'released')
end

-- ── operators steer ───────────────────────────────────────────────────────────────────────────────────────────────

function Transitions.cancel_pending(job, reason)
  Admission.give_back(job)
  Transitions.finish(job, 'cancelled', false, reason or job.error)
end

function Transitions.ask_to_stop(job)
  Store.change(job, {cancel = true})
  Store.call_workers = true
end

function Transitions.cancel(job)
  if job.state == 'running' then
    Transitions.ask_to_stop(job)
  else
    Transitions.cancel_pending(job)
  end
end

Transitions.RESTARTED = {failed = true, cancelled = true}

-- `brings`: numbers that its new arguments bring.
function Transitions.restart(job, brings)
  if job.outcome and job.started_at and job.ended_at then
    Store.remember(job,
      {job.attempt, job.outcome, job.started_at, job.ended_at, job.worker or '', job.error or false})
  end
  Transitions.clear(job)
  Store.change(job, {
    state = 'scheduled', due = now, tries = 0, worker = false, started_at = false, ended_at = false, outcome = false,
    error = false, result = false, expires_at = false, cancel = false, refusals = false, start_by = false,
    unique_until = false,
  })
  Transitions.bring(brings)
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
  local rival = job.need.unique and Transitions.taken_by(job.need)
  return rival and rival.id ~= job.id
end

-- ── limits change ─────────────────────────────────────────────────────────────────────────────────────────────────

-- A cap that is put up counts what runs already. Cost: what runs; caps are rarely put up.
function Transitions.adopt(name)
  local ident, kind, what = 'c0:' .. name, string.match(name, '^(%a+):(.*)$')
  if (kind ~= 'task' and kind ~= 'queue') or not Book.is_cap(ident) then return end
  for _, worker in ipairs(call('ZRANGE', base .. 'leases', 0, -1)) do
    for _, job in ipairs(Transitions.running_of(worker)) do
      if job.need[kind] == what and Ledger.holds(ident, job) == 0 then Ledger.take(ident, job, 1, false) end
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
  if limit and (limit.kind == 'rate' or limit.adaptive or limit.per_key) then return true end
  if before.learns or before.per_key or before.sized ~= after.sized then return true end
  return not before.max or not after.max or after.max > before.max
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
  local left = call('EXISTS', base .. 'retags') == 1 and Shares.go_on()
  if call('EXISTS', base .. 'filling') == 1 then left = Full.go_on() or left end
  return left or next(Book.changing) ~= nil
end

-- Write what differs, and answer whether go_on has something to do for it; for a limit see Book.unfolded. A name does not change its kind: jobs that use the old one would no longer be limited.
function Transitions.declare(limits)
  local left = false
  for _, l in ipairs(limits) do
    local value, known = pack(l), Book.limit(l[1])
    if known and known.kind ~= l[2] then Store.refuse('kind', l[1], known.kind, l[2]) end
    local stored = call('HGET', base .. 'limits', l[1])
    if stored ~= value and (stored or l[7]) then l, value = Book.declared_anew(stored and parse(stored) or l, l) end
    if stored ~= value then
      Book.change('limit', value)
      Write.field('limits', l[1], value)
      local limit = Book.unfolded(l, known and known.sums or false)
      Book.limits[l[1]] = limit
      Full.policy_changed(known, limit)
      if known and not Transitions.may_give_room(limit, known, limit) then
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
  local same = limit and limit.kind == 'concurrency' and not limit.adaptive and not limit.per_key
  return not value and not tenant and same and limit.max or nil
end

-- An operator's word comes into force ({name, max, value, tenant, by, at, why, until}), or is taken back (false).
function Transitions.set_override(name, value, tenant, override)
  local scope, before = Book.scope(name, value, tenant), override and Transitions.replaced(name, value, tenant)
  Book.change('override', scope, override)
  Write.field('overrides', scope, override and pack(override))
  Write.score('untils', scope, override and override[8])
  Book.staged[scope] = override
  local room = Transitions.may_give_room(Book.limit(name), {max = before}, {max = override and override[2] or nil})
  if override and not room then
    Book.changed()
  else
    Transitions.rules_changed(name, value, tenant)
  end
end

function Transitions.compute(ident, number, reason)
  local before = Book.find_numbers(ident) or Lines.NONE
  Book.put_numbers(ident, {number, now, reason or false, before[4] or false, before[5] or false, now})
  Admission.touch(ident)
end

-- An adaptive limit's number for one key; false where the number is not as it was seen.
function Transitions.learn(ident, number, seen, reason)
  if (Book.number_without_override(ident) or false) ~= seen then return false end
  Transitions.compute(ident, number, reason)
  return true
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
    job.need = Store.changed_need(need, need.uses, way.need.retry, need.updates)
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
    local rival = unique and Transitions.taken_by({tenant = tenant, unique = unique})
    if rival and not Store.ENDED[taken[1]] and rival.id ~= id then
      return {state or false, {'rival', rival.id, unique, rival.state}}
    end
  end
  if not job then
    local enqueued_at = record[1] or now
    job = Store.add(id, spec, need, enqueued_at, taken[2] or now + way.delay, Transitions.start_by(way, enqueued_at))
    Transitions.bring(way.brings)
  elseif not Store.ENDED[state] then
    Admission.give_back(job)
  end
  Transitions.write_import(job, way, taken)
  return {job.state, false}
end
