-- The step from beginning to end. Part of every script, before its verb.

-- A table with nothing in it; most have stayed empty, and need not be made anew.
function Step.emptied(kept)
  if kept and next(kept) == nil then return kept end
  return {}
end

Step.turns, Step.shelves, Step.shelved = 0, {}, 0

-- Tables of the keys and lines of a partition, to be used again. What stands in them is of the step that they name.
function Step.open_shelf()
  local shelf = Step.shelf
  if shelf and shelf.known > 1000 or Step.shelved > 64 then Step.shelves, Step.shelved = {}, 0 end
  shelf = Step.shelves[base]
  if not shelf then
    shelf = {known = 0, keys = {}, readies = {}, queues = {}}
    Step.shelves[base], Step.shelved = shelf, Step.shelved + 1
  end
  Step.shelf, Ledger.shelf = shelf, shelf.keys
end

-- Forget what an earlier call left in these tables.
function Step.reset(keys, given)
  call, arguments, format, sub = redis.call, given, string.format, string.sub
  pack, parse = cmsgpack.pack, cmsgpack.unpack
  base = sub(keys[1], 1, -5)
  if Step.header_text ~= given[1] then Step.header_text, Step.header = given[1], parse(given[1]) end
  header = Step.header
  settings, now = header.settings, header.now
  local empty = Step.emptied
  turn = Step.turns + 1
  Step.turns = turn
  Step.open_shelf()
  Store.put_away()
  Lines.all, Lines.readies, Lines.asides = empty(Lines.all), empty(Lines.readies), empty(Lines.asides)
  Lines.suspected = empty(Lines.suspected)
  Write.by_score, Write.by_field, Write.by_count, Write.puts, Write.takes =
    empty(Write.by_score), empty(Write.by_field), empty(Write.by_count), empty(Write.puts), empty(Write.takes)
  Write.records = empty(Write.records)
  Store.jobs, Store.dirty, Store.unique, Store.readied =
    empty(Store.jobs), empty(Store.dirty), empty(Store.unique), empty(Store.readied)
  Store.gone, Store.news, Store.forgotten, Store.specs =
    empty(Store.gone), empty(Store.news), empty(Store.forgotten), empty(Store.specs)
  Store.seq, Store.ended, Store.call_workers, Store.dropped = nil, false, false, nil
  Window.spent, Book.staged = empty(Window.spent), empty(Book.staged)
  Ledger.keys, Ledger.meters, Ledger.started = empty(Ledger.keys), empty(Ledger.meters), empty(Ledger.started)
  Ledger.claimer, Ledger.none_ready = nil, false
  Step.first_lease, Step.number = nil, nil
  Admission.touched, Admission.touches, Admission.unknown, Admission.unknown_seen =
    empty(Admission.touched), empty(Admission.touches), empty(Admission.unknown), empty(Admission.unknown_seen)
  Step.finished, Step.written = false, false
  if Ledger.holdings_known > 2000 then Ledger.holdings, Ledger.holdings_known = {}, 0 end
  if Store.needs_known > 2000 then Store.needs, Store.needs_known = {}, 0 end
  if Text.heads_known > 2000 then Text.heads, Text.heads_known = {}, 0 end
  if Book.keys_known > 2000 then Book.keys, Book.keys_known = {}, 0 end
end

-- Run a verb. Answers {raw texts …, status}: status is the msgpack of {'ok', answer} or of a refusal {code, …}; other
-- errors go to the caller as they are, with nothing written.
function Step.run(verb, keys, given, reading)
  Step.reset(keys, given)
  Step.reading = reading
  local raw = {}
  local ok, answer = pcall(Step.walk, verb, parse(given[2]), raw)
  if ok then
    raw[#raw + 1] = pack({'ok', answer})
    return raw
  elseif type(answer) == 'table' and answer.refused then
    return {pack(answer.refused)}
  elseif type(answer) == 'table' then
    return answer
  end
  return redis.error_reply('HEADGATE ' .. tostring(answer))
end

function Step.walk(verb, given, raw)
  Step.begin()
  local answer = verb(given, raw)
  Step.finish()
  return answer
end

-- One of ours, of a version we know, and the one that was opened; else nothing may be touched.
function Step.begin()
  if header.cluster then
    -- While a slot moves, reading a key that is not there fails. Better here than in the middle of the writing.
    call('EXISTS', base .. 'nothing')
  end
  Store.meta = call('HMGET', base .. 'meta', 'version', 'epoch', 'seq', 'rules', 'changing')
  if not Store.meta[1] then Store.refuse('gone') end
  if tonumber(Store.meta[1]) ~= header.version then Store.refuse('version', Store.meta[1]) end
  if Store.meta[2] ~= header.epoch then Store.refuse('epoch', Store.meta[2]) end
  Book.open(Store.meta[4] or Store.meta[2])
  Book.changing, Book.goes_on = Store.meta[5] and parse(Store.meta[5]) or Lines.NONE, false
  if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  now_text = format('%d', now)
end

-- Waiters of touched keys are offered their room, all is written, and sleepers are called.
function Step.finish()
  if Step.finished then return end
  Step.finished = true
  Admission.offer()
  Ledger.write()
  if Step.number then call('HSET', base .. 'numbers', Step.numbered, Step.number) end
  Store.write()
  Book.write()
  Window.write()
  Step.written = true
  if Store.call_workers then
    call('PUBLISH', base .. 'work', '')
  elseif next(Store.readied) ~= nil then
    local queues = {}
    for queue in pairs(Store.readied) do queues[#queues + 1] = queue end
    call('PUBLISH', base .. 'work', pack(queues))
  end
  if Store.ended then call('PUBLISH', base .. 'ended', '') end
end

function Step.head(name)
  local first = call('ZRANGE', base .. name, '0', '0', 'WITHSCORES')
  return tonumber(first[2])
end

-- When a sweep will next have work, false if never; and whether this or `other`, a key, may be there. Asked after the
-- writing.
function Step.next_due(other)
  local due, any = Step.first_lease or Step.head('leases') or false, false
  local scheduled, timers = base .. 'scheduled', base .. 'timers'
  local reserved, untils = base .. 'reserved', base .. 'untils'
  if call('EXISTS', scheduled, timers, reserved, untils, other or scheduled) > 0 then
    any = true
    for _, name in ipairs({'scheduled', 'timers', 'reserved', 'untils'}) do
      local at = Step.head(name)
      if at and (not due or at < due) then due = at end
    end
  end
  if next(Book.changing) ~= nil then due = now end
  return due, any
end

-- A worker whose lease is good: {tasks, queues, lease, …}, see register.lua, and `known`, its tasks as a set.
-- Remembered by its text, since a worker asks thousands of times and hardly ever changes.
function Step.leased(worker)
  local first = call('ZRANGE', base .. 'leases', '0', '0', 'WITHSCORES')
  Step.first_lease = tonumber(first[2])
  local lease = first[1] == worker and Step.first_lease or tonumber(call('ZSCORE', base .. 'leases', worker))
  if not lease or lease <= now then Store.refuse('lapsed', worker) end
  local text = call('HGET', base .. 'workers', worker)
  if Step.worker_text ~= text then
    local record = parse(text)
    record.known = {}
    for _, task in ipairs(record[1]) do record.known[task] = true end
    Step.worker_text, Step.worker = text, record
  end
  return Step.worker
end

-- The fence of messages (rule 13): one that a later one has overtaken changes nothing. Also checks the lease.
function Step.in_turn(worker, number)
  local record = Step.leased(worker)
  if number then
    local last = tonumber(call('HGET', base .. 'numbers', worker)) or 0
    if number <= last then Store.refuse('stale', worker, number, last) end
    Step.number, Step.numbered = Text.whole(number), worker
  end
  return record
end
