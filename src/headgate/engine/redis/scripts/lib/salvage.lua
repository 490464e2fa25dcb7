-- Records that cannot be read: what is left of them ends as failed. Part of every script.
--
-- One such record must not stop a worker, nor anything else. What can still be read of it tells where the job stands
-- and what it holds, so that it gives that back; what cannot is found by the indexes, or by a recheck.

Store.UNREADABLE = 'what is stored of this job cannot be read'

-- Task, queue and the like from the part that otherwise only Python reads.
function Store.spec_need(id)
  local text = call('GET', base .. 'spec:' .. id)
  local ok, spec = pcall(parse, text or '')
  if not ok or type(spec) ~= 'table' then spec = {} end
  local function or_else(value, kind, other) return type(value) == kind and value or other end
  return Store.need(pack({
    or_else(spec[1], 'string', '?'), or_else(spec[2], 'string', '?'), or_else(spec[4], 'string', ''),
    or_else(spec[5], 'number', 50), false, '[1]', or_else(spec[8], 'string', false), false,
  }))
end

-- Where a job stands if nothing can be read of its record; false if only a line names it.
function Store.whereabouts(job)
  job.seq = tonumber(call('ZSCORE', base .. 'jobs', job.id)) or 0
  if call('ZSCORE', base .. 'ended', job.id) then return 'failed' end
  local due = call('ZSCORE', base .. 'scheduled', Store.by_arrival(job))
  if due then
    job.due = tonumber(due)
    return 'scheduled'
  end
  for _, worker in ipairs(call('HKEYS', base .. 'workers')) do
    if call('ZSCORE', base .. 'run:' .. worker, job.id) then
      job.worker, job.was_worker, job.started_at = worker, worker, now
      return 'running'
    end
  end
  return false
end

function Store.salvage(id, text)
  local job = Store.table_for(id, Store.spec_need(id))
  Store.newborn(job, false, now, now)
  local ok, state, _, number, due, seq, enqueued_at, attempt, tries, past, units, refusals, started_at, _, expires_at,
    _, worker, offered_by, waiting_on, holds = pcall(struct.unpack, Store.LAYOUT, text)
  local name = ok and Store.STATES[state % Store.MORE]
  if name then
    local flags = Store.flags[number] or Store.flags_of(number)
    local held, keys = pcall(Ledger.holding, holds)
    job.due, job.seq, job.enqueued_at, job.attempt, job.tries, job.past = due, seq, enqueued_at, attempt, tries, past
    job.units, job.refusals, job.started_at = units, flags.refusals and refusals, flags.started and started_at
    job.worker, job.cancel = flags.worker and worker, flags.cancel
    job.aside = flags.aside and 'aside' or state % Store.SUSPECT > Store.THREAD and 'thread'
    job.offered_by, job.waiting_on = offered_by ~= '' and offered_by, waiting_on ~= '' and waiting_on
    job.holds = holds ~= '' and held and keys
    job.was_worker, job.was_cancel, job.was_holds = job.worker, job.cancel, job.holds
    job.expires_at = expires_at
  else
    name = Store.whereabouts(job)
  end
  job.state, job.was, job.error = name or 'failed', name, Store.UNREADABLE
  if Store.ENDED[job.state] and name then
    job.ended_at, job.expires_at = now, job.expires_at or now
  elseif not Transaction.reading then
    Store.jobs[id] = job
    if name then Admission.give_back(job) end
    Transitions.finish(job, 'failed', name == 'running' and 'failed' or false, Store.UNREADABLE)
  end
  return job
end

-- A line names a job that does not wait in it: nothing but the line knew of it, unless its record told where it stood.
function Store.strike_waiter(ident, queue, member)
  local line = Lines.waiting(ident, queue)
  if line.gone[member] then return end
  Lines.remove(line, member)
  Write.count('waiting', queue, -1)
end

-- The same of a ready line.
function Store.strike_ready(lines, member)
  for _, line in ipairs(lines) do
    if not line.gone[member] and call('ZSCORE', line.key, member) then
      Lines.remove(line, member)
      Write.count('ready', line.queue, -1)
    end
  end
end
