-- The step from beginning to end. Part of every script, before its verb.

-- Forget what an earlier call left in these tables.
function Step.reset(keys, given)
  call, pack, parse, arguments = redis.call, cmsgpack.pack, cmsgpack.unpack, given
  base, header = string.sub(keys[1], 1, -5), parse(given[1])
  settings, now = header.settings, header.now
  Lines.all, Lines.on = {}, {}
  Write.by_score, Write.by_field, Write.by_count = {}, {}, {}
  Store.promised, Store.jobs, Store.dirty, Store.deleted, Store.unique = {}, {}, {}, {}, {}
  Store.seq, Store.ended, Store.call_workers, Store.dropped = nil, false, false, nil
  Rates.Window.spent = {}
  Book.limits, Book.keys, Book.rules, Book.caps, Book.staged, Book.computed = {}, {}, {}, {}, {}, {}
  Book.overridden, Book.version = nil, 0
  Ledger.holding, Ledger.taken, Ledger.meters, Ledger.readied, Ledger.started = {}, {}, {}, {}, {}
  Ledger.caps_of, Ledger.caps_at, Ledger.claimer = nil, nil, nil
  Admission.touched, Admission.touches, Admission.unknown, Admission.unknown_seen = {}, {}, {}, {}
  Step.finished = false
end

-- Run a verb. Answers {status, raw texts …}: status is the msgpack of {'ok', answer} or of a refusal {code, …}; other
-- errors go to the caller as they are, with nothing written.
function Step.run(verb, keys, given)
  Step.reset(keys, given)
  local raw = {}
  local ok, answer = pcall(function()
    Step.begin()
    local found = verb(parse(given[2]), raw)
    Step.finish()
    return found
  end)
  if ok then
    return {pack({'ok', answer}), unpack(raw)}
  elseif type(answer) == 'table' and answer.refused then
    return {pack(answer.refused)}
  elseif type(answer) == 'table' then
    return answer
  end
  return redis.error_reply('HEADGATE ' .. tostring(answer))
end

-- One of ours, of a version we know, and the one that was opened; else nothing may be touched.
function Step.begin()
  if header.cluster then
    -- While a slot moves, reading a key that is not there fails. Better here than in the middle of the writing.
    call('EXISTS', base .. 'nothing')
  end
  Store.meta = call('HMGET', base .. 'meta', 'version', 'epoch', 'seq')
  if not Store.meta[1] then Store.refuse('gone') end
  if tonumber(Store.meta[1]) ~= header.version then Store.refuse('version', Store.meta[1]) end
  if Store.meta[2] ~= header.epoch then Store.refuse('epoch', Store.meta[2]) end
  if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
  end
end

-- Waiters of touched keys are offered their room, all is written, and sleepers are called.
function Step.finish()
  if Step.finished then return end
  Step.finished = true
  Admission.offer()
  Ledger.write()
  Store.write()
  Window.write()
  local queues, seen = {}, {}
  for _, queue in pairs(Ledger.readied) do
    if not seen[queue] then
      seen[queue], queues[#queues + 1] = true, queue
    end
  end
  if Store.call_workers then
    call('PUBLISH', base .. 'work', '')
  elseif #queues > 0 then
    call('PUBLISH', base .. 'work', pack(queues))
  end
  if Store.ended then call('PUBLISH', base .. 'ended', '') end
end

function Step.head(name)
  local first = call('ZRANGE', base .. name, 0, 0, 'WITHSCORES')
  return tonumber(first[2])
end

-- When a sweep will next have work; false if never. Asked after the writing.
function Step.next_due()
  local due = false
  for _, name in ipairs({'scheduled', 'timers', 'leases', 'reserved', 'untils'}) do
    local at = Step.head(name)
    if at and (not due or at < due) then due = at end
  end
  return due
end

-- A worker whose lease is good: {tasks, queues, lease, …}; see register.lua.
function Step.leased(worker)
  local lease = tonumber(call('ZSCORE', base .. 'leases', worker))
  if not lease or lease <= now then Store.refuse('lapsed', worker) end
  return parse(call('HGET', base .. 'workers', worker))
end
