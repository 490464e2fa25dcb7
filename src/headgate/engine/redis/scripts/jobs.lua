-- Jobs as scripts see them, and what is written of them. Part of every script.
--
-- `job:ID` is one packed text: what moves, and `need`, what admission asks, hardly ever changed. `spec:ID` is Python's
-- alone. `past:ID` are the attempts that did not end the job, one packed after the other.
--
-- A job in a step is one table; where functions are kept, so are these tables, for the next call; those of running jobs
-- with what stands in them, which is good for as long as the store has the same text. What a job has not is false.
-- `was…` is what the store has of it: the indexes that follow from a job's state are brought up to date at the end, from
-- what it was to what it is.

-- State, outcome, flags (worker, started, aside, cancel, refusals, error, progress, result); due, seq, enqueued_at;
-- attempt, tries, past; units; refusals; started_at, ended_at, expires_at; then texts with their lengths: need, worker,
-- offered_by, waiting_on, holds (packed), error, progress, result. records.py reads the same.
Store.LAYOUT = '>BBBdddI4I4I4dI4dddI4c0I4c0I4c0I4c0I4c0I4c0I4c0I4c0'
Store.SEQ_AT = 12 -- where in it seq stands
Store.STATES = {'scheduled', 'ready', 'waiting', 'running', 'succeeded', 'failed', 'cancelled'}
Store.OUTCOMES = {'succeeded', 'failed', 'cancelled', 'snoozed', 'released', 'lost'}
Store.CODES = {
  scheduled = 1, ready = 2, waiting = 3, running = 4, succeeded = 5, failed = 6, cancelled = 7,
}
Store.OUTCOME_CODES = {succeeded = 1, failed = 2, cancelled = 3, snoozed = 4, released = 5, lost = 6}
Store.flags, Store.used, Store.tables = {}, {}, 0
Store.free, Store.frees, Store.running, Store.runs = {}, 0, {}, 0

-- A need read back; many jobs have the same, so those that were read are remembered by their text.
function Store.need(text)
  local need = Store.needs[text]
  if not need then
    local n = parse(text)
    need = {
      text = text, task = n[1], queue = n[2], tenant = n[3], priority = n[4], uses = n[5], retry = n[6], unique = n[7],
      retention = n[8],
    }
    Store.needs[text], Store.needs_known = need, Store.needs_known + 1
  end
  return need
end

-- The tables of the last call: those of running jobs are kept as they are, the others are free. A call that did not
-- come to its end has left behind what never came to be.
function Store.put_away()
  local used, free, frees, running, runs = Store.used, Store.free, Store.frees, Store.running, Store.runs
  if not Step.written or runs > 256 then running, runs = {}, 0 end
  for number = 1, Store.tables do
    local job = used[number]
    used[number] = nil
    if Step.written and job.state == 'running' and job.record then
      running[job.id], runs = job, runs + 1
    elseif frees < 512 then
      frees = frees + 1
      free[frees], job.record, job.result, job.error = job, false, false, false
    end
  end
  Store.tables, Store.frees, Store.running, Store.runs = 0, frees, running, runs
end

function Store.use(job)
  local number = Store.tables + 1
  Store.tables, Store.used[number] = number, job
  job.dirty, job.readied = false, false
end

-- A table for a job; those of earlier calls are used again.
function Store.table_for(id, need)
  local frees, job = Store.frees, nil
  if frees > 0 then
    job, Store.frees = Store.free[frees], frees - 1
    job.id, job.need, job.rank = id, need, false
    Store.use(job)
    return job
  end
  job = {
    id = id, need = need, dirty = false, rank = false, readied = false, record = false, was = false,
    was_worker = false, was_cancel = false, was_holds = false, state = false, due = 0, seq = 0, enqueued_at = 0,
    attempt = 0, tries = 0, past = 0, units = 0, refusals = false, started_at = false, ended_at = false,
    expires_at = false, outcome = false, worker = false, offered_by = false, waiting_on = false, holds = false,
    error = false, progress = false, result = false, cancel = false, aside = false,
  }
  Store.use(job)
  return job
end

-- The table of a running job as an earlier call has written it, if that is what the store has.
function Store.still_running(id, text)
  local job = Store.running[id]
  if not job then return nil end
  Store.running[id], Store.runs = nil, Store.runs - 1
  Store.use(job)
  if job.record ~= text then
    job.state = false
    return nil
  end
  job.was, job.was_worker, job.was_cancel, job.was_holds = 'running', job.worker, job.cancel, job.holds
  return job
end

function Store.flags_of(number)
  local flags, rest = {}, number
  for _, name in ipairs({'worker', 'started', 'aside', 'cancel', 'refusals', 'error', 'progress', 'result'}) do
    flags[name] = rest % 2 == 1
    rest = (rest - rest % 2) / 2
  end
  Store.flags[number] = flags
  return flags
end

function Store.unfold(id, text)
  local known = Store.still_running(id, text)
  if known then return known end
  local state, outcome, number, due, seq, enqueued_at, attempt, tries, past, units, refusals, started_at, ended_at,
    expires_at, need, worker, offered_by, waiting_on, holds, error, progress, result = struct.unpack(Store.LAYOUT, text)
  local job, flags = Store.table_for(id, Store.need(need)), Store.flags[number] or Store.flags_of(number)
  local name = Store.STATES[state]
  worker = flags.worker and worker
  job.state, job.was, job.worker, job.was_worker = name, name, worker, worker
  job.cancel, job.was_cancel, job.aside = flags.cancel, flags.cancel, flags.aside
  job.due, job.seq, job.enqueued_at, job.attempt, job.tries = due, seq, enqueued_at, attempt, tries
  job.past, job.units, job.refusals = past, units, flags.refusals and refusals
  job.started_at, job.ended_at, job.expires_at = flags.started and started_at, ended_at, expires_at
  job.outcome, job.offered_by = Store.OUTCOMES[outcome] or false, offered_by ~= '' and offered_by
  job.waiting_on, job.holds = waiting_on ~= '' and waiting_on, holds ~= '' and Ledger.holding(holds)
  job.was_holds = job.holds
  job.error, job.progress, job.result = flags.error and error, flags.progress and progress, flags.result and result
  return job
end

function Store.folded(job)
  local worker, started_at, refusals, holds = job.worker, job.started_at, job.refusals, job.holds
  local error, progress, result, need = job.error, job.progress, job.result, job.need.text
  local flags = (worker and 1 or 0) + (started_at and 2 or 0) + (job.aside and 4 or 0) + (job.cancel and 8 or 0)
    + (refusals and 16 or 0) + (error and 32 or 0) + (progress and 64 or 0) + (result and 128 or 0)
  local offered_by, waiting_on = job.offered_by or '', job.waiting_on or ''
  worker, error, progress, result = worker or '', error or '', progress or '', result or ''
  holds = holds and holds.text or ''
  return struct.pack(
    Store.LAYOUT, Store.CODES[job.state], Store.OUTCOME_CODES[job.outcome] or 0, flags, job.due, job.seq,
    job.enqueued_at, job.attempt, job.tries, job.past, job.units, refusals or 0, started_at or 0, job.ended_at or 0,
    job.expires_at or 0, #need, need, #worker, worker, #offered_by, offered_by, #waiting_on, waiting_on, #holds, holds,
    #error, error, #progress, progress, #result, result
  )
end

function Store.job(id)
  local job = Store.jobs[id]
  if job == nil then
    local text = call('GET', base .. 'job:' .. id)
    job = text and Store.unfold(id, text) or false
    Store.jobs[id] = job
  end
  return job
end

-- Read jobs that are about to be asked for, all at once.
function Store.load(ids)
  if #ids == 0 then return end
  local missing, keys, start, jobs, count = {}, {}, base .. 'job:', Store.jobs, 0
  for i = 1, #ids do
    local id = ids[i]
    if jobs[id] == nil then
      count = count + 1
      missing[count], keys[count], jobs[id] = id, start .. id, false
    end
  end
  for first = 1, count, 1000 do
    local found = call('MGET', unpack(keys, first, math.min(first + 999, count)))
    for i = 1, #found do
      local text = found[i]
      if text then
        local id = missing[first + i - 1]
        jobs[id] = Store.unfold(id, text)
      end
    end
  end
end

-- The jobs of a line's members, which are their ranks.
function Store.ranked(members)
  local jobs, ids, loaded = {}, {}, true
  for i = 1, #members do
    local id = sub(members[i], 31)
    ids[i], loaded = id, loaded and Store.jobs[id]
  end
  if not loaded then Store.load(ids) end
  for i = 1, #ids do
    local job = Store.jobs[ids[i]]
    job.rank, jobs[i] = members[i], job
  end
  return jobs
end

-- Priority, due time, arrival and id, so that byte order is the order of a claim. Due times may lie before 1970.
-- Whoever changes the due time clears the rank.
function Store.rank(job)
  local rank = job.rank
  if not rank then
    local need, due = job.need, job.due
    if need.headed ~= due then
      need.headed, need.head = due, format('%02d%016d', need.priority, due + 1e15)
    end
    rank = need.head .. format('%012d', job.seq) .. job.id
    job.rank = rank
  end
  return rank
end

-- The arrival as text; it stands in the rank.
function Store.arrival(job)
  return job.rank and sub(job.rank, 19, 30) or format('%012d', job.seq)
end

function Store.by_arrival(job)
  return Store.arrival(job) .. job.id
end

function Store.rival(tenant, unique)
  local field = Text.join(tenant, unique)
  if Store.unique[field] == nil then
    Store.unique[field] = call('HGET', base .. 'unique', field)
  end
  return Store.unique[field] and Store.job(Store.unique[field]) or nil
end

function Store.set_rival(job, id)
  local field = Text.join(job.need.tenant, job.need.unique)
  Store.unique[field] = id
  Write.field('unique', field, id)
end

function Store.line(job)
  local need = job.need
  if job.state == 'waiting' then return Lines.waiting(job.waiting_on, need.queue) end
  return job.aside and Lines.aside(need.queue, need.task) or Lines.ready(need.queue)
end

function Store.touch(job)
  if not job.dirty then
    job.dirty = true
    Store.dirty[#Store.dirty + 1] = job
  end
end

-- Take a job out of where it stands. Whoever does so changes its fields and lets it `enter` again.
function Store.leave(job)
  local state = job.state
  if job.offered_by then Ledger.promise(job, -1) end
  if state == 'ready' or state == 'waiting' then Lines.remove(Store.line(job), Store.rank(job)) end
  if job.need.unique and not Store.ENDED[state] then
    local rival = Store.rival(job.need.tenant, job.need.unique)
    if rival and rival.id == job.id then Store.set_rival(job, false) end
  end
end

function Store.enter(job)
  local state = job.state
  if job.offered_by then Ledger.promise(job, 1) end
  if state == 'ready' or state == 'waiting' then Lines.add(Store.line(job), Store.rank(job)) end
  if job.need.unique and not Store.ENDED[state] and not Store.rival(job.need.tenant, job.need.unique) then
    Store.set_rival(job, job.id)
  end
  Store.touch(job)
end

-- Set fields (false clears one) and move the job to where they put it.
function Store.change(job, fields)
  Store.leave(job)
  for name, value in pairs(fields) do job[name] = value end
  if fields.due then job.rank = false end
  Store.enter(job)
end

function Store.next_seq()
  Store.seq = (Store.seq or tonumber(Store.meta[3]) or 0) + 1
  return Store.seq
end

function Store.newborn(job, state, enqueued_at, due)
  job.state, job.was, job.was_worker, job.was_cancel, job.was_holds = state, false, false, false, false
  job.due, job.enqueued_at, job.attempt, job.tries = due, enqueued_at, 0, 0
  job.past, job.units, job.refusals, job.started_at, job.ended_at = 0, 0, false, false, false
  job.expires_at, job.outcome, job.worker, job.offered_by, job.waiting_on = false, false, false, false, false
  job.holds, job.error, job.progress, job.result, job.cancel, job.aside = false, false, false, false, false, false
end

-- A new job, scheduled, due or not.
function Store.add(id, spec, need, enqueued_at, due)
  local job = Store.table_for(id, need)
  Store.newborn(job, 'scheduled', enqueued_at, due)
  Store.specs[id], job.seq = spec, Store.next_seq()
  Store.jobs[id] = job
  Store.enter(job)
  return job
end

-- An ended job is gone.
function Store.remove(job)
  Store.leave(job)
  Store.jobs[job.id], Store.gone[job] = false, true
  Store.touch(job)
end

-- An attempt that has ended without ending its job.
function Store.remember(job, attempt)
  Store.news[job.id] = (Store.news[job.id] or '') .. pack(attempt)
  job.past = job.past + 1
end

-- Its attempts will be told anew.
function Store.forget_past(job)
  if job.past > 0 then Store.forgotten[job.id] = true end
  Store.news[job.id], job.past = nil, 0
end

-- ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- Members to put into sorted sets and to take out of them, by the set's name.
function Write.put(name, score, member)
  local list = Write.of(Write.puts, name)
  local size = #list
  list[size + 1], list[size + 2] = score, member
end

function Write.take(name, member)
  local list = Write.of(Write.takes, name)
  list[#list + 1] = member
end

Write.runs, Write.workers = {}, 0

-- The name of the set of what a worker runs; there are few workers, and these names are asked for all the time.
function Write.runs_of(worker)
  local name = Write.runs[worker]
  if not name then
    name = 'run:' .. worker
    if Write.workers > 1000 then Write.runs, Write.workers = {}, 0 end
    Write.runs[worker], Write.workers = name, Write.workers + 1
  end
  return name
end

function Write.run(job, was, state)
  local worker, running = job.was_worker, state == 'running'
  if was == 'running' and not (running and worker == job.worker) then
    Write.take(Write.runs_of(worker), job.id)
    if job.was_cancel then Write.take('stop:' .. worker, job.id) end
    was = false
  end
  if running then
    if was ~= 'running' then Write.put(Write.runs_of(job.worker), Store.arrival(job), job.id) end
    if job.cancel and not (was and job.was_cancel) then Write.put('stop:' .. job.worker, '0', job.id) end
  end
end

-- Everything that follows from what a job was and what it is.
function Write.indexes(job)
  local was, state, queue = job.was, not Store.gone[job] and job.state, job.need.queue
  if was ~= state then
    local counts = Write.of(Write.by_count, queue)
    if was then counts[was] = (counts[was] or 0) - 1 end
    if state then counts[state] = (counts[state] or 0) + 1 end
  end
  if was == 'running' or state == 'running' then Write.run(job, was, state) end
  if state == 'scheduled' then
    Write.put('scheduled', format('%d', job.due), Store.by_arrival(job))
  elseif was == 'scheduled' then
    Write.take('scheduled', Store.by_arrival(job))
  end
  if Store.ENDED[state] then
    local at = job.expires_at
    if Write.expiry ~= at then Write.expiry, Write.expiry_text = at, format('%d', at) end
    Write.put('ended', Write.expiry_text, job.id)
  elseif was and Store.ENDED[was] then
    Write.take('ended', job.id)
  end
  if state == 'ready' and job.readied then Store.readied[queue] = true end
end

function Write.jobs()
  local records, gone, size, start = Write.records, {}, #Write.records, base .. 'job:'
  for _, job in ipairs(Store.dirty) do
    local id = job.id
    if Store.gone[job] then
      gone[#gone + 1], gone[#gone + 2], gone[#gone + 3] = start .. id, base .. 'spec:' .. id, base .. 'past:' .. id
      Write.take('jobs', id)
    else
      job.record = Store.folded(job)
      records[size + 1], records[size + 2] = start .. id, job.record
      size = size + 2
      local spec = Store.specs[id]
      if spec then
        records[size + 1], records[size + 2] = base .. 'spec:' .. id, spec
        size = size + 2
        Write.put('jobs', Store.arrival(job), id)
      end
      if Store.forgotten[id] then call('DEL', base .. 'past:' .. id) end
      if Store.news[id] then call('APPEND', base .. 'past:' .. id, Store.news[id]) end
    end
    Write.indexes(job)
  end
  Write.many('DEL', nil, gone)
  Write.many('MSET', nil, records)
  for name, members in pairs(Write.takes) do Write.many('ZREM', base .. name, members) end
  for name, members in pairs(Write.puts) do Write.many('ZADD', base .. name, members) end
end
