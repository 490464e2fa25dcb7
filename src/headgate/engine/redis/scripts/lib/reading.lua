-- What several reading scripts need. Part of every script.

-- What Python reads a job from: id, job, spec and past as they are stored; false if there is no such job.
function Reading.fields(id)
  local found = call('MGET', base .. 'job:' .. id, base .. 'spec:' .. id, base .. 'past:' .. id)
  return found[1] and {id, unpack(found)}
end

function Reading.waiting(ident)
  local total = 0
  for _, queue in ipairs(Ledger.stored_queues(ident)) do
    total = total + call('ZCARD', base .. 'wait:' .. Text.join(queue, ident))
  end
  return total
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
  for i = 1, #all, 2 do who[#who + 1] = {all[i], sub(all[i + 1], -1) == 'r'} end
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
