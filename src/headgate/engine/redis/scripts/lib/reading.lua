-- What several reading scripts need. Part of every script.

-- What Python reads a job from: id, job, spec and past as they are stored; false if there is no such job.
function Reading.fields(id)
  local found = call('MGET', base .. 'job:' .. id, base .. 'spec:' .. id, base .. 'past:' .. id)
  return found[1] and {id, unpack(found)}
end

-- How many jobs wait on each of these keys. Nothing else is kept of a key: lists look at many of them.
function Reading.waiting_on(idents)
  local counts, starts = {}, {}
  for first = 1, #idents, 1000 do
    local found = call('HMGET', base .. 'waitqs', unpack(idents, first, math.min(first + 999, #idents)))
    for i, text in ipairs(found) do
      local ident, total = idents[first + i - 1], 0
      for _, queue in ipairs(Ledger.queues_in(text)) do
        local start = starts[queue]
        if not start then
          start = base .. 'wait:' .. Text.join(queue, '')
          starts[queue] = start
        end
        total = total + call('ZCARD', start .. ident)
      end
      counts[first + i - 1] = total
    end
  end
  return counts
end

function Reading.waiting(ident)
  return Reading.waiting_on({ident})[1]
end

-- {ident, held, waiting, numbers (see Book.find_numbers) or false, until when it is closed or false} of each key.
function Reading.counts(idents)
  local rows, waiting = {}, Reading.waiting_on(idents)
  for i, ident in ipairs(idents) do
    local numbers, gate = call('HGET', base .. 'computed', ident), Book.all_gates()[ident]
    rows[i] = {ident, Reading.held(ident), waiting[i], numbers and parse(numbers) or false, gate or false}
  end
  return rows
end

-- How many units of a key are held. Of rates nothing ever is.
function Reading.held(ident)
  local held = call('HLEN', base .. 'held:' .. ident)
  local limit = Book.limit(Book.key(ident).name)
  if limit and limit.sums then held = held + (call('HGET', base .. 'larger', ident) or 0) end
  return held
end

-- The tokens that a rate has now, below zero a debt, and when the next is there: {tokens, at or false}; false where
-- nothing limits.
function Reading.tokens(ident)
  local rule = Book.rule(ident)
  if not rule.rate or not rule.limit then return false end
  if rule.limit == 0 then return {0, false} end
  local meter = Ledger.meter(ident)
  local tokens = meter.kind.free(meter, rule) - meter.kind.debt(meter, rule)
  return {tokens, meter.kind.when(meter, rule, math.max(tokens, 0) + 1) or false}
end

-- When a rate has so many tokens; false where no time will help, or none is needed.
function Reading.earliest(ident, units)
  local rule = Book.rule(ident)
  if not rule.rate then return Admission.opens_at(rule) or false end
  if not rule.limit or rule.limit == 0 then return false end
  local meter = Ledger.meter(ident)
  return meter.kind.when(meter, rule, units) or false
end

-- The first of some holders, given as a hash has them: {id, task, worker or false, since, whether reserved, seq, units}, longest
-- first. Only the jobs that may be among them are read.
function Reading.first_holders(fields, most)
  local found, ids, rows = {}, {}, {}
  for i = 1, #fields, 2 do
    local since, reserved, units = Ledger.read_holder(fields[i + 1])
    found[#found + 1] = {fields[i], false, false, since, reserved, 0, units}
  end
  table.sort(found, function(a, b) return a[4] < b[4] end)
  local latest = found[math.min(most, #found)]
  for i, row in ipairs(found) do
    if row[4] > latest[4] then break end
    ids[i] = row[1]
  end
  Store.load(ids)
  for i, id in ipairs(ids) do
    local job, row = Store.job(id), found[i]
    if job then row[2], row[3], row[6], rows[#rows + 1] = job.need.task, job.worker, job.seq, row end
  end
  table.sort(rows, function(a, b)
    if a[4] ~= b[4] then return a[4] < b[4] end
    return a[6] < b[6]
  end)
  for extra = #rows, most + 1, -1 do rows[extra] = nil end
  return rows
end

Reading.HOLDERS = 500

-- The first holders of a key; false if it has too many to be read at once.
function Reading.holders(ident, most)
  if Ledger.held(ident) > Reading.HOLDERS then return false end
  return Reading.first_holders(call('HGETALL', base .. 'held:' .. ident), most)
end

-- The first waiters of a key, of all queues: {id, task, queue, tenant, priority, due}; and the rank to go on behind,
-- false at the end.
function Reading.waiters(ident, most, after)
  local members, rows = {}, {}
  for _, queue in ipairs(most > 0 and Ledger.stored_queues(ident) or Lines.NONE) do
    local line, from = base .. 'wait:' .. Text.join(queue, ident), after and '(' .. after or '-'
    for _, member in ipairs(call('ZRANGEBYLEX', line, from, '+', 'LIMIT', '0', Text.whole(most))) do
      members[#members + 1] = member
    end
  end
  table.sort(members)
  local last = #members >= most and members[most] or false
  for extra = #members, most + 1, -1 do members[extra] = nil end
  for i, member in ipairs(members) do members[i] = sub(member, 47) end
  Store.load(members)
  for _, id in ipairs(members) do
    local job = Store.job(id)
    if job then
      local need = job.need
      rows[#rows + 1] = {id, need.task, need.queue, need.tenant, need.priority, job.due}
    end
  end
  return rows, last
end

function Reading.values(name)
  local found = {}
  for i, value in ipairs(call('HVALS', base .. name)) do found[i] = parse(value) end
  return found
end

-- The ident in a member of an index by name.
function Reading.ident(member)
  return sub(member, string.find(member, '=', 1, true) + 1)
end

-- The next members of several indexes by name, in their order, each once: of one name, behind `after`. Answers also
-- whether there are more of them.
function Reading.slice(indexes, name, after, most)
  local seen, members, beyond = {}, {}, false
  local from, till = '-', '+'
  if name then from, till = '[' .. name .. '=', '(' .. name .. '>' end
  if after then from = '(' .. after end
  for _, index in ipairs(indexes) do
    for _, member in ipairs(call('ZRANGEBYLEX', base .. index, from, till, 'LIMIT', '0', Text.whole(most + 1))) do
      if not seen[member] then seen[member], members[#members + 1] = true, member end
    end
  end
  table.sort(members)
  for extra = #members, most + 1, -1 do members[extra], beyond = nil, true end
  return members, beyond
end

-- Whether all keys of a name belong to the same tenant and are of one kind, so that their idents stand in the order of
-- their texts: idents begin with the kind of the key and its tenant. Answers this of keys without a tenant.
function Reading.are_alike(indexes, name)
  for _, start in ipairs({name .. '=c0:', name .. '=r0:'}) do
    local same = true
    for _, index in ipairs(indexes) do
      local all = call('ZLEXCOUNT', base .. index, '[' .. name .. '=', '(' .. name .. '>')
      same = same and all == call('ZLEXCOUNT', base .. index, '[' .. start, '(' .. sub(start, 1, -2) .. ';')
    end
    if same then return true end
  end
  return false
end

-- A key as snapshots show it: {ident, holders, what it has left (false: no limit), the most tokens it can ever have}.
function Reading.key(ident)
  local all, who, rule = call('HGETALL', base .. 'held:' .. ident), {}, Book.rule(ident)
  for i = 1, #all, 2 do
    local _, reserved, units = Ledger.read_holder(all[i + 1])
    who[#who + 1] = {all[i], reserved, units}
  end
  local left = Admission.free(ident)
  local waited = rule.rate and rule.limit and #Ledger.stored_queues(ident) > 0
  return {ident, who, left < Admission.UNLIMITED and left, waited and rule.most or false}
end

function Reading.timers(from, most)
  local timers = {}
  local armed = call('ZRANGE', base .. 'timers', Text.whole(from), Text.whole(from + most - 1), 'WITHSCORES')
  for i = 1, #armed, 2 do timers[#timers + 1] = {armed[i], tonumber(armed[i + 1])} end
  return timers
end
