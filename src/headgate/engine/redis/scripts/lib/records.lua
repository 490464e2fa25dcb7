-- Jobs as the store keeps them, and as tables. Part of every script.
--
-- `job:ID` is one packed text: what moves, and `need`, what admission asks, hardly ever changed. `spec:ID` is Python's
-- alone. `past:ID` are the attempts that did not end the job, one packed after the other.
--
-- A job in a step is one table; where functions are kept, so are these tables, for the next call; those of running jobs
-- with what stands in them, which is good for as long as the store has the same text. What a job has not is false.
-- `was…` is what the store has of it.

-- State, outcome, flags (worker, started, aside, cancel, refusals, error, progress, result); due, seq, enqueued_at;
-- attempt, tries, past; units; refusals; started_at, ended_at, expires_at; then texts with their lengths: need, worker,
-- offered_by, waiting_on, holds (packed), error, progress, result. records.py reads the same.
-- A job that was ever lost with its worker has a tail (suspicion, lost, lost_after), and SUSPECT is added to its state;
-- THREAD is if it is set aside for lack of threads. One with a tag, a time by which it must have started, a unique key
-- that it keeps for a time, or spendings that it may correct has a tail of these behind all, and MORE is added. Nearly
-- all jobs have none of this.
Store.LAYOUT = '>BBBdddI4I4I4dI4dddI4c0I4c0I4c0I4c0I4c0I4c0I4c0I4c0'
Store.TAIL = '>I4I4d'
Store.FOLDED = Store.LAYOUT .. 'c0' -- with a tail: joining the two afterwards would make a long text twice
Store.MORE_TAIL, Store.NEVER, Store.TAG_TO_END = '>dddI4c0', 2 ^ 53, 28 -- what is there of a tail from its tag on
Store.ONLY_TAG = '\67\64\0\0\0\0\0\0\67\64\0\0\0\0\0\0\0\0\0\0' -- behind a tag: never, never, nothing
Store.SUSPECT, Store.THREAD, Store.MORE = 128, 64, 32
Store.SEQ_AT, Store.ENDED_AT, Store.NEED_AT = 12, 60, 76 -- where in it seq, ended_at and need stand
Store.STATES = {'scheduled', 'ready', 'waiting', 'running', 'succeeded', 'failed', 'cancelled'}
Store.OUTCOMES = {'succeeded', 'failed', 'cancelled', 'snoozed', 'released', 'lost', 'throttled'}
Store.CODES = {
  scheduled = 1, ready = 2, waiting = 3, running = 4, succeeded = 5, failed = 6, cancelled = 7,
}
Store.OUTCOME_CODES = {succeeded = 1, failed = 2, cancelled = 3, snoozed = 4, released = 5, lost = 6, throttled = 7}
Store.flags, Store.used, Store.tables = {}, {}, 0
Store.free, Store.frees, Store.running, Store.runs = {}, 0, {}, 0

-- Whether they are what admission reads: none, or {ident, units} each.
function Store.are_uses(uses)
  if not uses then return true end
  for _, use in ipairs(uses) do
    if type(use) ~= 'table' or type(use[2]) ~= 'number' or not string.find(use[1], '^[cr]%d+:') then return false end
  end
  return true
end

-- A need read back; many jobs have the same, so those that were read are remembered by their text.
function Store.need(text)
  local need = Store.needs[text]
  if not need then
    local n = parse(text)
    if type(n) ~= 'table' or type(n[1]) ~= 'string' or type(n[2]) ~= 'string' or type(n[4]) ~= 'number'
      or not Store.are_uses(n[5]) or type(cjson.decode(n[6])) ~= 'table' then
      error('its task, queue, limits or retry policy')
    end
    local more = n[9] or Lines.NONE
    need = {
      text = text, task = n[1], queue = n[2], tenant = n[3], priority = n[4], uses = n[5], retry = n[6], unique = n[7],
      retention = n[8], more = n[9] or false, share = more[1] or false, by_time = more[2] or false,
      unique_for = more[3] or false, updates = more[4] or false, place = false, share_head = false,
      headed = false, tagged = false, head = false, apart = false, apart_at = false, bounded = false, crowded = false,
    }
    need.brings = Store.brings(n[5])
    if need.share then
      need.place, need.share_head = Shares.place(need.priority, need.queue), Shares.head(need.share)
    end
    Store.needs[text], Store.needs_known = need, Store.needs_known + 1
  end
  return need
end

-- The numbers that a job brings for its keys, {ident, number} each; false for none.
function Store.brings(uses)
  local brings = false
  for _, use in ipairs(uses or Lines.NONE) do
    if use[4] then
      brings = brings or {}
      brings[#brings + 1] = {use[1], use[4]}
    end
  end
  return brings
end

-- A need with other uses, another retry policy, or another share.
function Store.changed_need(need, uses, retry, updates, share)
  local more = need.more
  if updates then more = {share or need.share, need.by_time, need.unique_for, true} end
  local row = {need.task, need.queue, need.tenant, need.priority, uses, retry, need.unique, need.retention}
  row[9] = more or nil
  return Store.need(pack(row))
end

-- The tables of the last call: those of running jobs are kept as they are, the others are free. A call that did not
-- come to its end has left behind what never came to be.
function Store.put_away()
  local used, free, frees, running, runs = Store.used, Store.free, Store.frees, Store.running, Store.runs
  if not Transaction.written or runs > 256 then running, runs = {}, 0 end
  for number = 1, Store.tables do
    local job = used[number]
    used[number] = nil
    if Transaction.written and job.state == 'running' and job.record then
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
    error = false, progress = false, result = false, cancel = false, aside = false, suspicion = 0, lost = 0,
    lost_after = 0, tag = 0, start_by = false, was_start_by = false, unique_until = false, spent = false, tail_of = 0,
    tail = false,
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
  job.was_start_by = job.start_by
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
  local ok, job = pcall(Store.read, id, text)
  return ok and job or Store.salvage(id, text)
end

function Store.read(id, text)
  local state, outcome, number, due, seq, enqueued_at, attempt, tries, past, units, refusals, started_at, ended_at,
    expires_at, need, worker, offered_by, waiting_on, holds, error, progress, result, tail =
    struct.unpack(Store.LAYOUT, text)
  local job, flags = Store.table_for(id, Store.need(need)), Store.flags[number] or Store.flags_of(number)
  job.suspicion, job.lost, job.lost_after = 0, 0, 0
  if state > Store.SUSPECT then
    state = state - Store.SUSPECT
    job.suspicion, job.lost, job.lost_after, tail = struct.unpack(Store.TAIL, text, tail)
  end
  local aside = flags.aside and 'aside'
  if state > Store.THREAD then state, aside = state - Store.THREAD, 'thread' end
  job.tag, job.start_by, job.was_start_by, job.unique_until, job.spent = 0, false, false, false, false
  if state > Store.MORE then
    state = state - Store.MORE
    Store.read_more(job, text, tail)
  end
  local name = Store.STATES[state]
  worker = flags.worker and worker
  job.state, job.was, job.worker, job.was_worker = name, name, worker, worker
  job.cancel, job.was_cancel, job.aside = flags.cancel, flags.cancel, aside
  job.due, job.seq, job.enqueued_at, job.attempt, job.tries = due, seq, enqueued_at, attempt, tries
  job.past, job.units, job.refusals = past, units, flags.refusals and refusals
  job.started_at, job.ended_at, job.expires_at = flags.started and started_at, ended_at, expires_at
  job.outcome, job.offered_by = Store.OUTCOMES[outcome] or false, offered_by ~= '' and offered_by
  job.waiting_on, job.holds = waiting_on ~= '' and waiting_on, holds ~= '' and Ledger.holding(holds)
  job.was_holds = job.holds
  job.error, job.progress, job.result = flags.error and error, flags.progress and progress, flags.result and result
  return job
end

function Store.read_more(job, text, tail)
  if sub(text, tail + 8) == Store.ONLY_TAG then
    local tag = struct.unpack('>d', text, tail)
    job.tag, job.tail_of, job.tail = tag, tag, sub(text, tail)
    return
  end
  local tag, start_by, unique_until, spent = struct.unpack(Store.MORE_TAIL, text, tail)
  job.tag, job.spent = tag, spent ~= '' and parse(spent)
  job.start_by, job.unique_until = start_by < Store.NEVER and start_by, unique_until < Store.NEVER and unique_until
  job.was_start_by = job.start_by
end

-- Most that have one have nothing but a tag in it, which hardly ever changes.
function Store.more_tail(job)
  if job.start_by or job.unique_until or job.spent then
    local spent = job.spent and pack(job.spent) or ''
    return struct.pack(
      Store.MORE_TAIL, job.tag, job.start_by or Store.NEVER, job.unique_until or Store.NEVER, #spent, spent)
  end
  if job.tail_of ~= job.tag then
    job.tail_of, job.tail = job.tag, struct.pack('>d', job.tag) .. Store.ONLY_TAG
  end
  return job.tail
end

function Store.folded(job)
  local worker, started_at, refusals, holds = job.worker, job.started_at, job.refusals, job.holds
  local error, progress, result, need = job.error, job.progress, job.result, job.need.text
  local flags = (worker and 1 or 0) + (started_at and 2 or 0) + (job.aside == 'aside' and 4 or 0)
    + (job.cancel and 8 or 0) + (refusals and 16 or 0) + (error and 32 or 0) + (progress and 64 or 0) + (result and 128 or 0)
  local offered_by, waiting_on = job.offered_by or '', job.waiting_on or ''
  worker, error, progress, result = worker or '', error or '', progress or '', result or ''
  holds = holds and holds.text or ''
  local state, tail = Store.CODES[job.state], ''
  if job.aside == 'thread' then state = state + Store.THREAD end
  if job.lost_after > 0 or job.lost > 0 then
    state, tail = state + Store.SUSPECT, struct.pack(Store.TAIL, job.suspicion, job.lost, job.lost_after)
  end
  if job.tag > 0 or job.start_by or job.unique_until or job.spent then
    state, tail = state + Store.MORE, tail .. Store.more_tail(job)
  end
  return struct.pack(
    Store.FOLDED, state, Store.OUTCOME_CODES[job.outcome] or 0, flags, job.due, job.seq,
    job.enqueued_at, job.attempt, job.tries, job.past, job.units, refusals or 0, started_at or 0, job.ended_at or 0,
    job.expires_at or 0, #need, need, #worker, worker, #offered_by, offered_by, #waiting_on, waiting_on, #holds, holds,
    #error, error, #progress, progress, #result, result, tail
  )
end
