-- Jobs as scripts see them, and what is written of them. Part of every script.
--
-- `job:ID` is a pair: what moves (an array, in the order of `Store.folded`) and `need`, what admission asks, hardly ever
-- changed. `spec:ID` is Python's alone. `past:ID` are the attempts that did not end the job, one packed after the other.
--
-- A job in a step is one table. `was…` is what the store has of it: the indexes that follow from a job's state are brought
-- up to date at the end, from what it was to what it is.

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

function Store.unfold(id, text)
  local at, l = parse_some(text, 1, 1)
  local state, worker, cancel = l[1], l[16], l[18]
  return {
    id = id, need = Store.need(sub(text, at + 1)), was = state, was_worker = worker, was_cancel = cancel, state = state,
    due = l[2], seq = l[3], enqueued_at = l[4], attempt = l[5], tries = l[6], past = l[7], error = l[8], progress = l[9],
    units = l[10], offered_by = l[11], waiting_on = l[12], refusals = l[13], aside = l[14], holds = l[15],
    worker = worker, started_at = l[17], cancel = cancel, ended_at = l[19], outcome = l[20], result = l[21],
    expires_at = l[22],
  }
end

function Store.folded(job)
  local state, life = job.state, nil
  if Store.ENDED[state] then
    life = {
      state, job.due, job.seq, job.enqueued_at, job.attempt, job.tries, job.past, job.error or false,
      job.progress or false, 0, false, false, job.refusals or false, false, false, job.worker or false,
      job.started_at or false, job.cancel or false, job.ended_at, job.outcome or false, job.result or false,
      job.expires_at,
    }
  else
    life = {
      state, job.due, job.seq, job.enqueued_at, job.attempt, job.tries, job.past, job.error or false,
      job.progress or false, job.units, job.offered_by or false, job.waiting_on or false, job.refusals or false,
      job.aside or false, job.holds or false, job.worker or false, job.started_at or false, job.cancel or false,
    }
  end
  return '\146' .. pack(life) .. job.need.text
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
  local missing, keys, start = {}, {}, base .. 'job:'
  for _, id in ipairs(ids) do
    if Store.jobs[id] == nil then
      missing[#missing + 1], keys[#keys + 1] = id, start .. id
      Store.jobs[id] = false
    end
  end
  for first = 1, #keys, 1000 do
    local found = call('MGET', unpack(keys, first, math.min(first + 999, #keys)))
    for i, text in ipairs(found) do
      local id = missing[first + i - 1]
      Store.jobs[id] = text and Store.unfold(id, text) or false
    end
  end
end

-- The jobs of a line's members, which are their ranks.
function Store.ranked(members)
  local jobs, ids = {}, {}
  for i, member in ipairs(members) do ids[i] = sub(member, 31) end
  Store.load(ids)
  for i, id in ipairs(ids) do
    local job = Store.jobs[id]
    job.rank, job.ranked, jobs[i] = members[i], job.due, job
  end
  return jobs
end

-- Priority, due time, arrival and id, so that byte order is the order of a claim. Due times may lie before 1970.
function Store.rank(job)
  if job.ranked ~= job.due then
    local need, due = job.need, job.due
    if need.headed ~= due then
      need.headed, need.head = due, format('%02d%016d', need.priority, due + 1e15)
    end
    job.ranked, job.rank = due, need.head .. format('%012d', job.seq) .. job.id
  end
  return job.rank
end

function Store.by_arrival(job)
  return format('%012d', job.seq) .. job.id
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
  Store.enter(job)
end

-- A new job, scheduled, due or not.
function Store.add(id, spec, need, enqueued_at, due)
  Store.seq = (Store.seq or tonumber(Store.meta[3]) or 0) + 1
  local job = {
    id = id, spec = spec, need = need, state = 'scheduled', due = due, seq = Store.seq, enqueued_at = enqueued_at,
    attempt = 0, tries = 0, past = 0, units = 0,
  }
  Store.jobs[id] = job
  Store.enter(job)
  return job
end

-- An ended job is gone.
function Store.remove(job)
  Store.leave(job)
  Store.jobs[job.id], job.gone = false, true
  Store.touch(job)
end

-- An attempt that has ended without ending its job.
function Store.remember(job, attempt)
  job.news = (job.news or '') .. pack(attempt)
  job.past = job.past + 1
end

-- ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- Members to put into sorted sets and to take out of them, by the set's name.
function Write.put(name, score, member)
  local list = Write.puts[name]
  if not list then
    list = {}
    Write.puts[name] = list
  end
  local size = #list
  list[size + 1], list[size + 2] = score, member
end

function Write.take(name, member)
  local list = Write.takes[name]
  if not list then
    list = {}
    Write.takes[name] = list
  end
  list[#list + 1] = member
end

function Write.run(job, was, state)
  local worker, running = job.was_worker, state == 'running'
  if was == 'running' and not (running and worker == job.worker) then
    Write.take('run:' .. worker, job.id)
    if job.was_cancel then Write.take('stop:' .. worker, job.id) end
    was = nil
  end
  if running then
    if was ~= 'running' then Write.put('run:' .. job.worker, format('%d', job.seq), job.id) end
    if job.cancel and not (was and job.was_cancel) then Write.put('stop:' .. job.worker, '0', job.id) end
  end
end

-- Everything that follows from what a job was and what it is.
function Write.indexes(job)
  local was, state, queue = job.was, not job.gone and job.state or nil, job.need.queue
  if was ~= state then
    if was then Write.count(was, queue, -1) end
    if state then Write.count(state, queue, 1) end
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
  local records, gone, size, start = {}, {}, 0, base .. 'job:'
  for _, job in ipairs(Store.dirty) do
    local id = job.id
    if job.gone then
      gone[#gone + 1], gone[#gone + 2], gone[#gone + 3] = start .. id, base .. 'spec:' .. id, base .. 'past:' .. id
      Write.take('jobs', id)
    else
      job.record = Store.folded(job)
      records[size + 1], records[size + 2] = start .. id, job.record
      size = size + 2
      if job.spec then
        records[size + 1], records[size + 2] = base .. 'spec:' .. id, job.spec
        size = size + 2
        Write.put('jobs', format('%d', job.seq), id)
      end
      if job.forget then call('DEL', base .. 'past:' .. id) end
      if job.news then call('APPEND', base .. 'past:' .. id, job.news) end
    end
    Write.indexes(job)
  end
  for first = 1, #gone, 3000 do call('DEL', unpack(gone, first, math.min(first + 2999, #gone))) end
  for first = 1, size, 2000 do call('MSET', unpack(records, first, math.min(first + 1999, size))) end
  for name, members in pairs(Write.takes) do Write.many('ZREM', base .. name, members) end
  for name, members in pairs(Write.puts) do Write.many('ZADD', base .. name, members) end
end
