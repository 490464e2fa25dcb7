-- The step from beginning to end. Part of every script, before its verb.

-- A table with nothing in it; most have stayed empty, and need not be made anew.
function Transaction.emptied(kept)
  if kept and next(kept) == nil then return kept end
  return {}
end

Transaction.turns, Transaction.shelves, Transaction.shelved = 0, {}, 0

-- Tables of the keys and lines of a partition, to be used again. What stands in them is of the step that they name.
function Transaction.open_shelf()
  local shelf = Transaction.shelf
  if shelf and shelf.known > 1000 or Transaction.shelved > 64 then Transaction.shelves, Transaction.shelved = {}, 0 end
  shelf = Transaction.shelves[base]
  if not shelf then
    shelf = {known = 0, keys = {}, readies = {}, queues = {}, places = {}}
    Transaction.shelves[base], Transaction.shelved = shelf, Transaction.shelved + 1
  end
  Transaction.shelf, Ledger.shelf = shelf, shelf.keys
end

-- Forget what an earlier call left in these tables.
function Transaction.reset(keys, given)
  call, arguments, format, sub = redis.call, given, string.format, string.sub
  pack, parse = cmsgpack.pack, cmsgpack.unpack
  base = sub(keys[1], 1, -5)
  if Transaction.header_text ~= given[1] then Transaction.header_text, Transaction.header = given[1], parse(given[1]) end
  header = Transaction.header
  settings, now = header.settings, header.now
  local empty = Transaction.emptied
  turn = Transaction.turns + 1
  Transaction.turns = turn
  Transaction.open_shelf()
  Store.put_away()
  Lines.all, Lines.readies, Lines.asides = empty(Lines.all), empty(Lines.readies), empty(Lines.asides)
  Lines.suspected, Lines.places, Lines.crowds = empty(Lines.suspected), empty(Lines.places), empty(Lines.crowds)
  Full.pending = empty(Full.pending)
  Shares.virtual, Shares.means, Shares.counts = empty(Shares.virtual), empty(Shares.means), empty(Shares.counts)
  Shares.lasts, Shares.listed, Shares.retags = empty(Shares.lasts), empty(Shares.listed), empty(Shares.retags)
  Shares.forgetting = false
  Write.by_score, Write.by_field, Write.by_count, Write.puts, Write.takes =
    empty(Write.by_score), empty(Write.by_field), empty(Write.by_count), empty(Write.puts), empty(Write.takes)
  Write.records, Write.by_block = empty(Write.records), empty(Write.by_block)
  Write.spell.count, Write.spell.till = 0, 0
  Store.jobs, Store.dirty, Store.unique, Store.readied =
    empty(Store.jobs), empty(Store.dirty), empty(Store.unique), empty(Store.readied)
  Store.gone, Store.news, Store.forgotten, Store.specs =
    empty(Store.gone), empty(Store.news), empty(Store.forgotten), empty(Store.specs)
  Store.seq, Store.ended, Store.call_workers, Store.dropped, Store.indexing = nil, false, false, nil, nil
  Window.spent, Book.staged = empty(Window.spent), empty(Book.staged)
  Ledger.keys, Ledger.meters, Ledger.started = empty(Ledger.keys), empty(Ledger.meters), empty(Ledger.started)
  Ledger.claimer, Ledger.none_ready = nil, false
  Transaction.first_lease, Transaction.number = nil, nil
  Admission.touched, Admission.touches, Admission.unknown, Admission.unknown_seen =
    empty(Admission.touched), empty(Admission.touches), empty(Admission.unknown), empty(Admission.unknown_seen)
  Admission.parked = empty(Admission.parked)
  Transaction.finished, Transaction.written = false, false
  if Ledger.holdings_known > 2000 then Ledger.holdings, Ledger.holdings_known = {}, 0 end
  if Store.needs_known > 2000 then Store.needs, Store.needs_known = {}, 0 end
  if Text.heads_known > 2000 then Text.heads, Text.heads_known = {}, 0 end
  if Book.keys_known > 2000 then Book.keys, Book.keys_known = {}, 0 end
end

-- Run a verb. Answers {raw texts …, status}: status is the msgpack of {'ok', answer} or of a refusal {code, …}; other
-- errors go to the caller as they are, with nothing written.
function Transaction.run(verb, keys, given, reading)
  Transaction.reset(keys, given)
  Transaction.reading = reading
  local raw = {}
  local ok, answer = pcall(Transaction.walk, verb, parse(given[2]), raw)
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

function Transaction.walk(verb, given, raw)
  Transaction.begin()
  local answer = verb(given, raw)
  Transaction.finish()
  return answer
end

-- The store must be Headgate's, of this version, and the one that was opened; else nothing may be touched.
function Transaction.begin()
  if header.cluster then
    -- While a slot moves, reading a key that is not there fails. Better here than in the middle of the writing.
    call('EXISTS', base .. 'nothing')
  end
  Store.meta = call('HMGET', base .. 'meta', 'version', 'epoch', 'seq', 'rules', 'changing', 'unindexed')
  if not Store.meta[1] then Store.refuse('gone') end
  if tonumber(Store.meta[1]) ~= header.version then Store.refuse('version', Store.meta[1]) end
  if Store.meta[2] ~= header.epoch then Store.refuse('epoch', Store.meta[2]) end
  Book.open(Store.meta[4] or Store.meta[2])
  Store.unindexed = tonumber(Store.meta[6]) or -1 -- jobs of older data up to this arrival have yet to be counted by state
  Book.changing, Book.goes_on = Store.meta[5] and parse(Store.meta[5]) or Lines.NONE, false
  if not now then
    local time = call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  now_text = format('%d', now)
end

-- Waiters of touched keys are offered their room, all is written, and sleepers are called.
function Transaction.finish()
  if Transaction.finished then return end
  Transaction.finished = true
  Admission.offer()
  Ledger.write()
  if Transaction.number then call('HSET', base .. 'numbers', Transaction.numbered, Transaction.number) end
  Store.write()
  Book.write()
  Window.write()
  Transaction.written = true
  if Store.call_workers then
    call('PUBLISH', base .. 'work', '')
  elseif next(Store.readied) ~= nil then
    local queues = {}
    for queue in pairs(Store.readied) do queues[#queues + 1] = queue end
    call('PUBLISH', base .. 'work', pack(queues))
  end
  if Store.ended then call('PUBLISH', base .. 'ended', '') end
end

function Transaction.head(name)
  local first = call('ZRANGE', base .. name, '0', '0', 'WITHSCORES')
  return tonumber(first[2])
end

-- When a sweep will next have work, false if never; and whether this or `other`, a key, may be there. Asked after the
-- writing.
function Transaction.next_due(other)
  local due, any = Transaction.first_lease or Transaction.head('leases') or false, false
  local scheduled, timers, starting = base .. 'scheduled', base .. 'timers', base .. 'starting'
  local reserved, untils, ends = base .. 'reserved', base .. 'untils', base .. 'weightends'
  local gates, retags, filling = base .. 'gates', base .. 'retags', base .. 'filling'
  if call('EXISTS', scheduled, timers, starting, reserved, untils, ends, gates, retags, filling, other or scheduled) > 0 then
    any = true
    for _, name in ipairs({'scheduled', 'timers', 'reserved', 'untils', 'starting', 'weightends'}) do
      local at = Transaction.head(name)
      if at and (not due or at < due) then due = at end
    end
    due = Transaction.next_gate(due)
    if call('EXISTS', retags, filling) > 0 then due = now end
  end
  if next(Book.changing) ~= nil then due = now end
  return due, any
end

-- Throttled keys are looked at when they are open wide. Cost: they are few.
function Transaction.next_gate(due)
  for ident in pairs(Book.all_gates()) do
    local rule = Book.rule(ident)
    local at = rule.gate and Admission.open_at(rule)
    if at and (not due or at < due) then due = at end
  end
  return due
end

-- The registration of a worker with a good lease: {tasks, queues, lease, …}, see register.lua, and as sets its tasks
-- (`known`) and those of them that need a thread (`threaded`).
-- Remembered by its text, since a worker asks thousands of times and hardly ever changes.
function Transaction.leased(worker)
  local first = call('ZRANGE', base .. 'leases', '0', '0', 'WITHSCORES')
  Transaction.first_lease = tonumber(first[2])
  local lease = first[1] == worker and Transaction.first_lease or tonumber(call('ZSCORE', base .. 'leases', worker))
  if not lease or lease <= now then Store.refuse('lapsed', worker) end
  local text = call('HGET', base .. 'workers', worker)
  if Transaction.worker_text ~= text then
    local record = parse(text)
    record.known, record.threaded = {}, {}
    for _, task in ipairs(record[1]) do record.known[task] = true end
    for _, task in ipairs(record[9] or Lines.NONE) do record.threaded[task] = record.known[task] end
    Transaction.worker_text, Transaction.worker = text, record
  end
  return Transaction.worker
end

-- The fence of messages (rule 13): one that a later one has overtaken changes nothing. Also checks the lease.
function Transaction.in_turn(worker, number)
  local record = Transaction.leased(worker)
  if number then
    local last = tonumber(call('HGET', base .. 'numbers', worker)) or 0
    if number <= last then Store.refuse('stale', worker, number, last) end
    Transaction.number, Transaction.numbered = Text.whole(number), worker
  end
  return record
end
