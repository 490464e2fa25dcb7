-- Jobs in a step: read, put where they belong, changed. Part of every script.

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
    local id = sub(members[i], 47)
    ids[i], loaded = id, loaded and Store.jobs[id]
  end
  if not loaded then Store.load(ids) end
  for i = 1, #ids do
    local job = Store.jobs[ids[i]]
    if job and job.state == 'ready' then
      job.rank, jobs[#jobs + 1] = members[i], job
    end
  end
  return jobs
end

-- What ranks of a priority, tag and due time begin with. Due times may lie before 1970.
function Store.head(priority, tag, due)
  return format('%02d%016d%016d', priority, tag, due + 1e15)
end

-- Priority (2 digits), tag of the share (16), due time (16), arrival (12) and id, so that byte order is the order of a
-- claim. A change of the due time or the tag clears the rank.
function Store.rank(job)
  local rank = job.rank
  if not rank then
    local need, due, tag = job.need, job.due, job.tag
    if need.headed ~= due or need.tagged ~= tag then
      need.headed, need.tagged, need.head = due, tag, Store.head(need.priority, tag, due)
    end
    rank = need.head .. format('%012d', job.seq) .. job.id
    job.rank = rank
  end
  return rank
end

-- What stands for a job in its line: its rank, in lines of suspects behind a mark.
function Store.member(job)
  if job.suspicion > 0 and job.state == 'ready' then return Blame.mark(job) .. Store.rank(job) end
  return Store.rank(job)
end

-- The arrival as text; it stands in the rank.
function Store.arrival(job)
  return job.rank and sub(job.rank, 35, 46) or format('%012d', job.seq)
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
  if job.suspicion > 0 then return Lines.suspects(need.queue, job.aside, need.task) end
  return job.aside and Lines.aside(job.aside, need.queue, need.task) or Lines.ready(need.queue)
end

function Store.touch(job)
  if not job.dirty then
    job.dirty = true
    Store.dirty[#Store.dirty + 1] = job
  end
end

-- Whether a unique key is taken by a job: until it ends, or as long after its start as it asked for. One that updates may
-- replace gives its key free when it starts.
function Store.keeps_unique(job)
  if Store.ENDED[job.state] then return job.unique_until end
  return not job.need.updates or job.attempt == 0
end

-- Whether other lines than its own hold a pending job: that of its share, that of all pending jobs of its queue.
function Store.stands_apart(need)
  if need.apart_at ~= Book.stamp then
    local policy = Book.policy(Full.queue_ident(need.queue))
    need.bounded = policy and policy.max_waiting and true or false
    need.crowded = need.bounded and policy.on_overflow == 'drop_oldest'
    need.apart, need.apart_at = need.share or need.bounded, Book.stamp
  end
  return need.apart
end

function Store.enter_apart(job)
  local need = job.need
  if need.share then Shares.enter(job) end
  if need.bounded then Store.move_backlog(need, job, Lines.add, 1) end
end

function Store.leave_apart(job, starts)
  local need = job.need
  if need.share then (starts and Shares.start or Shares.leave)(job) end
  if need.bounded then Store.move_backlog(need, job, Lines.remove, -1) end
end

function Store.move_backlog(need, job, move, by)
  if need.crowded then move(Lines.crowd(need.queue), Store.rank(job)) end
  local pending = Full.pending[need.queue]
  if pending then Full.pending[need.queue] = pending + by end
end

-- Take a job out of where it stands, since it `starts` or for another reason. The caller changes its fields and lets it
-- `enter` again.
function Store.leave(job, starts)
  local state = job.state
  if job.offered_by then Ledger.promise(job, -1) end
  if state == 'ready' or state == 'waiting' then
    Lines.remove(Store.line(job), Store.member(job))
    if Store.stands_apart(job.need) then Store.leave_apart(job, starts) end
  end
  if job.need.unique and Store.keeps_unique(job) then
    local rival = Store.rival(job.need.tenant, job.need.unique)
    if rival and rival.id == job.id then Store.set_rival(job, false) end
  end
end

function Store.enter(job)
  local state = job.state
  if job.offered_by then Ledger.promise(job, 1) end
  if state == 'ready' or state == 'waiting' then
    Lines.add(Store.line(job), Store.member(job))
    if Store.stands_apart(job.need) then Store.enter_apart(job) end
  end
  if job.need.unique and Store.keeps_unique(job) and not Store.rival(job.need.tenant, job.need.unique) then
    Store.set_rival(job, job.id)
  end
  Store.touch(job)
end

-- Set fields (false clears one) and move the job to where they put it.
function Store.change(job, fields)
  Store.leave(job)
  for name, value in pairs(fields) do job[name] = value end
  if fields.due or fields.tag then job.rank = false end
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
  job.suspicion, job.lost, job.lost_after = 0, 0, 0
  job.tag, job.start_by, job.was_start_by, job.unique_until, job.spent = 0, false, false, false, false
end

-- A new job, scheduled, due or not.
function Store.add(id, spec, need, enqueued_at, due, start_by)
  local job = Store.table_for(id, need)
  Store.newborn(job, 'scheduled', enqueued_at, due)
  job.start_by = start_by or false
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

-- A key of the partition is gone with all that stands in it.
function Store.drop(name)
  Store.dropped = Store.dropped or {}
  Store.dropped[#Store.dropped + 1] = base .. name
end
