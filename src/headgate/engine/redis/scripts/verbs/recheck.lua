-- recheck: look again at a slice of the keys that are held or waited for, and mend what cannot be (rule 20).
-- input {after or false, most}   answers {{what was mended …}, after or false, whether running jobs are missing from the
-- lists of all registered workers}. What was mended: {'holder', ident, id, state}, {'waiters', ident, queue, id} or
-- {'timer', ident}. Cost: the keys of the slice and their holders, at most 1000 of these beyond the first key.
local HOLDERS = 1000
local PENDING = {scheduled = true, ready = true, waiting = true}

-- Of a key with very many holders some are looked at, others each time.
local function holders_of(ident)
  if Ledger.held(ident) <= HOLDERS then return call('HGETALL', base .. 'held:' .. ident) end
  return call('HRANDFIELD', base .. 'held:' .. ident, HOLDERS, 'WITHVALUES')
end

local function give_back(ident, id, job, units)
  if job and job.holds and job.holds.keys[ident] ~= nil then
    Ledger.let_go(ident, job)
  else
    local key = Ledger.at(ident)
    key.left = key.left + 1
    key.leavers[key.left] = id
    Ledger.count(ident, -1, -units)
  end
  Admission.touch(ident)
end

local function check_holders(ident, healed)
  local all, ids = holders_of(ident), {}
  for i = 1, #all, 2 do ids[#ids + 1] = all[i] end
  Store.load(ids)
  for i = 1, #all, 2 do
    local id, _, reserved, units = all[i], Ledger.read_holder(all[i + 1])
    local job = Store.job(id)
    local state = job and job.state
    local fits = reserved and PENDING[state] or not reserved and state == 'running'
    if not fits or Ledger.holds(ident, job) == 0 then
      give_back(ident, id, job, units)
      healed[#healed + 1] = {'holder', ident, id, state or false}
    end
  end
  return #ids
end

-- A rate's waiters are offered when its timer rings: there must be one, and it must not ring too late.
local function check_timer(ident, queues, healed)
  local due = Admission.timer_of(ident, queues)
  local armed = due and tonumber(call('ZSCORE', base .. 'timers', ident))
  if due and not (armed and armed <= math.max(due, now)) then
    Admission.touch(ident)
    healed[#healed + 1] = {'timer', ident}
  end
end

-- Offering a key that was not touched must find nothing to do.
local function check_waiters(ident, healed)
  local queues = Ledger.stored_queues(ident)
  if Admission.is_timed(ident) then return check_timer(ident, queues, healed) end
  for _, queue in ipairs(queues) do
    local head = Lines.first(Lines.waiting(ident, queue), 1)[1]
    local job = head and Ledger.waiter(head)
    if job and Admission.room(ident, queue) >= job.units then
      Admission.touch(ident)
      healed[#healed + 1] = {'waiters', ident, queue, job.id}
    end
  end
end

-- Every running job stands in the list of a registered worker.
local function are_some_missing()
  local running, listed, counts = 0, 0, call('HGETALL', base .. 'counts')
  for i = 1, #counts, 2 do
    if sub(counts[i], 1, 8) == 'running:' then running = running + tonumber(counts[i + 1]) end
  end
  for _, worker in ipairs(call('HKEYS', base .. 'workers')) do
    listed = listed + call('ZCARD', base .. 'run:' .. worker)
  end
  return running ~= listed
end

local function verb(given)
  local healed, looked, last = {}, 0, false
  local members, beyond = Reading.slice({'helds', 'waited'}, false, given[1], given[2])
  local missing = not given[1] and are_some_missing()
  for i, member in ipairs(members) do
    local ident = Reading.ident(member)
    looked = looked + check_holders(ident, healed)
    check_waiters(ident, healed)
    if looked >= HOLDERS and i < #members then return {healed, member, missing} end
    last = member
  end
  return {healed, beyond and last, missing}
end
