-- What several reading scripts need. Part of every script.

-- What Python reads a job from: id, job, spec and past as they are stored; false if there is no such job.
function Looking.fields(id)
  local found = call('MGET', base .. 'job:' .. id, base .. 'spec:' .. id, base .. 'past:' .. id)
  return found[1] and {id, unpack(found)}
end

function Looking.waiting(ident)
  local total = 0
  for _, queue in ipairs(Ledger.stored_queues(ident)) do
    total = total + call('ZCARD', base .. 'wait:' .. Text.join(queue, ident))
  end
  return total
end

function Looking.values(name)
  local found = {}
  for i, value in ipairs(call('HVALS', base .. name)) do found[i] = parse(value) end
  return found
end

-- The rule book as Python keeps it: {limits, overrides, {{ident, {number, at}} …}}.
function Looking.book()
  local computed, all = {}, call('HGETALL', base .. 'computed')
  for i = 1, #all, 2 do computed[#computed + 1] = {all[i], parse(all[i + 1])} end
  return {Looking.values('limits'), Looking.values('overrides'), computed}
end

-- Idents of an index by name; `name` false means all.
function Looking.idents(index, name)
  if name then return Book.of_name(index, name) end
  local found = {}
  for i, member in ipairs(call('ZRANGE', base .. index, 0, -1)) do
    found[i] = string.sub(member, string.find(member, '=', 1, true) + 1)
  end
  return found
end

function Looking.counted(index, name, number)
  local found = {}
  for i, ident in ipairs(Looking.idents(index, name)) do found[i] = {ident, number(ident)} end
  return found
end
