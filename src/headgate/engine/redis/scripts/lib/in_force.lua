-- The limits in force: in_force.py, in Lua. Part of every script. Reads only the limits that the step's keys name.

-- What only depends on a key's text is remembered from call to call; so is the book, until `meta` names another
-- `rules`: that text changes with every rule that is written, and never comes back. `stamp` is never the same for two
-- states of the book.
Book.keys, Book.keys_known, Book.shelf, Book.stamps = {}, 0, {}, 0

function Book.open(rules)
  local kept = Book.shelf[base]
  if not kept or kept.of ~= rules or kept.known > 2000 then
    Book.stamps = Book.stamps + 1
    kept = {
      of = rules, known = 0, stamp = Book.stamps, limits = {}, rules = {}, caps = {}, numbers = {}, overridden = {},
      policies = {}, weights = {}, gates = false,
    }
    Book.shelf[base] = kept
  end
  Book.kept, Book.limits, Book.rules, Book.caps, Book.numbers = kept, kept.limits, kept.rules, kept.caps, kept.numbers
  Book.policies, Book.weights, Book.gates = kept.policies, kept.weights, kept.gates
  Book.overridden, Book.stamp, Book.changes = kept.overridden, kept.stamp, nil
end

-- A rule is about to be changed: from here on this step has a book of its own, and the next one will read it anew.
function Book.change(...)
  Book.shelf[base] = nil
  if not Book.changes then
    local gates = Book.all_gates()
    Book.limits, Book.numbers, Book.weights, Book.gates = {}, {}, {}, {}
    for ident, gate in pairs(gates) do Book.gates[ident] = gate end
  end
  Book.changes = (Book.changes or Store.meta[4] or Store.meta[2]) .. pack({...})
end

-- The numbers that follow from the rules are no longer what they were.
function Book.changed()
  Book.stamps = Book.stamps + 1
  Book.kept, Book.rules, Book.caps, Book.overridden, Book.stamp = {known = 0}, {}, {}, {}, Book.stamps
  Book.policies = {}
end

-- Limits whose numbers have changed, and up to which of their waited-for keys this has been acted on: a change with very
-- many keys acts in slices, and what is left of it is kept in `meta`, so that a sweep goes on where a caller died.
function Book.keep_changing(name, last)
  local changing = {}
  for other, at in pairs(Book.changing) do changing[other] = at end
  changing[name] = last or nil
  Book.changing, Book.goes_on = changing, true
end

function Book.is_changing(ident)
  return next(Book.changing) ~= nil and Book.changing[Book.key(ident).name] ~= nil
end

function Book.write()
  if Book.goes_on and next(Book.changing) ~= nil then
    call('HSET', base .. 'meta', 'changing', pack(Book.changing))
  elseif Book.goes_on then
    call('HDEL', base .. 'meta', 'changing')
  end
  if Book.changes then call('HSET', base .. 'meta', 'rules', redis.sha1hex(Book.changes .. now_text)) end
end

-- A key's ident, read back: kind, tenant (its length counts characters, not bytes), name and value.
function Book.key(ident)
  local key = Book.keys[ident]
  if key then return key end
  local colon = string.find(ident, ':', 3, true)
  local first = colon + 1
  local from = first
  for _ = 1, tonumber(sub(ident, 2, colon - 1)) do
    from = from + 1
    while from <= #ident and string.byte(ident, from) >= 0x80 and string.byte(ident, from) < 0xC0 do
      from = from + 1
    end
  end
  local text = sub(ident, from)
  local equals = string.find(text, '=', 1, true)
  key = {
    rate = string.byte(ident, 1) == 114,
    tenant = sub(ident, first, from - 1),
    name = equals and sub(text, 1, equals - 1) or text,
    value = equals and sub(text, equals + 1) or nil,
  }
  Book.keys[ident], Book.keys_known = key, Book.keys_known + 1
  return key
end

-- The ident of a key of a declared limit, or of a cap. The length of the tenant counts characters, not bytes.
function Book.ident(name, value, tenant)
  local limit = Book.limit(name)
  local _, characters = string.gsub(tenant or '', '[^\128-\191]', '')
  return (limit and limit.kind == 'rate' and 'r' or 'c') .. characters .. ':' .. (tenant or '') .. name
    .. (value and '=' .. value or '')
end

-- A member that sorts the keys of one name together: names hold no `=`.
function Book.by_name(ident)
  return Book.key(ident).name .. '=' .. ident
end

function Book.limit(name)
  local limit = Book.limits[name]
  if limit == nil then
    local found = call('HGET', base .. 'limits', name)
    limit = found and Book.unfolded(parse(found), call('HEXISTS', base .. 'sized', name) == 1)
    Book.limits[name], Book.kept.known = limit, Book.kept.known + 1
  end
  return limit
end

-- A limit as Python packs it: {name, kind, max, period, burst, algorithm}, and where any is not as usual {sized,
-- estimated, adaptive, per_key, when_full, max_waiting, on_overflow}. `sums`: jobs have named other units than one.
function Book.unfolded(l, sums)
  local more = l[7] or Lines.NONE
  local limit = {
    name = l[1], kind = l[2], max = l[3] or nil, period = l[4], burst = l[5] or nil, algorithm = l[6], sums = sums,
    sized = more[1] or false, estimated = more[2] or false, adaptive = more[3] or false, per_key = more[4] or false,
    policy = false,
  }
  limit.learns = limit.adaptive or limit.kind == 'floating'
  if more[5] and (more[5] ~= 'wait' or more[6]) then
    limit.policy = {when_full = more[5], max_waiting = more[6] or nil, on_overflow = more[7]}
  end
  return limit
end

-- What is kept when a limit is declared that is known already (in_force.py), and its text. What comes with single jobs,
-- the eighth of what is not as usual, does not change the number of other keys: where that is not the declared one, jobs
-- bring their numbers from now on, and do not stop to.
Book.USUAL = {false, false, false, false, 'wait', false, 'refuse'}

function Book.declared_anew(known, l)
  local row, more, before = {l[1], l[2], l[3], l[4], l[5], l[6]}, {}, known[7] or Book.USUAL
  for place = 1, 7 do more[place] = (l[7] or Book.USUAL)[place] end
  more[4] = more[4] or before[4]
  if (l[7] or Lines.NONE)[8] then
    more[4] = more[4] or l[3] ~= known[3]
    row[3] = known[3]
  end
  for place = 1, 7 do
    if more[place] ~= Book.USUAL[place] then row[7] = more end
  end
  return row, pack(row)
end

-- What a key's limit does when there is no room; false for limits that let all wait: nearly all.
function Book.policy(ident)
  local policy = Book.policies[ident]
  if policy == nil then
    local limit = Book.limit(Book.key(ident).name)
    policy = limit and limit.policy or false
    Book.policies[ident], Book.kept.known = policy, Book.kept.known + 1
  end
  return policy
end

-- Throttled keys, ident → {opens_at, step}. Few at a time; read once for each state of the book.
function Book.all_gates()
  if not Book.gates then
    local flat, gates = call('HGETALL', base .. 'gates'), {}
    for i = 1, #flat, 2 do gates[flat[i]] = parse(flat[i + 1]) end
    Book.gates = gates
    if not Book.changes then Book.kept.gates = gates end
  end
  return Book.gates
end

function Book.put_gate(ident, gate)
  Book.change('gate', ident, gate)
  Book.gates[ident] = gate or nil
  Write.field('gates', ident, gate and pack(gate))
  Book.changed()
end

-- Jobs have named other units than one of this limit: the units of its keys are summed from here on.
function Book.sum_units(name, limit)
  Book.change('sized', name)
  Book.limits[name] = limit
  limit.sums = true
  Write.field('sized', name, '1')
  Book.changed()
end

function Book.scope(name, value, tenant)
  return name .. '=' .. (value and '+' .. Text.join(value, '') or '-') .. (tenant and '+' .. tenant or '-')
end

Book.FEW = 200

-- Overrides are kept by name where they are few: most keys have none of their own, and nothing is asked to see that.
function Book.look_at_overrides(overridden)
  local changed = next(Book.staged) ~= nil
  local count = changed and 1 or call('HLEN', base .. 'overrides')
  overridden.any = count > 0
  if changed or count == 0 or count > Book.FEW then return end
  overridden.names, Book.kept.known = {}, Book.kept.known + count
  for _, text in ipairs(call('HVALS', base .. 'overrides')) do
    local override = parse(text)
    local of_name = Write.of(overridden.names, override[1])
    of_name[Book.scope(override[1], override[3], override[4])] = override
    of_name.keyed = of_name.keyed or override[3]
  end
end

function Book.find_override(of_name, name, value, tenant)
  local scope = Book.scope(name, value, tenant)
  if of_name then return of_name[scope] end
  local staged = Book.staged[scope]
  if staged ~= nil then return staged or nil end
  local found = call('HGET', base .. 'overrides', scope)
  return found and parse(found) or nil
end

-- The most specific override that speaks for a key: {name, max, value, tenant, by, at, why, until}.
function Book.override(key)
  local overridden, name, value, found = Book.overridden, key.name, key.value, nil
  if overridden.any == nil then Book.look_at_overrides(overridden) end
  if not overridden.any then return nil end
  local of_name = overridden.names and overridden.names[name]
  if overridden.names and not of_name then return nil end
  local tenant, find = key.tenant ~= '' and key.tenant or nil, Book.find_override
  if value and (not of_name or of_name.keyed) then
    found = tenant and find(of_name, name, value, tenant) or find(of_name, name, value, nil)
  end
  return found or tenant and find(of_name, name, nil, tenant) or find(of_name, name, nil, nil)
end

-- What is special about the number of a key: {computed, computed_at, reason, brought, brought_before, at}; false for
-- nothing. Older data has the first two.
function Book.find_numbers(ident)
  if Book.numbers[ident] == nil then
    local found = call('HGET', base .. 'computed', ident)
    Book.numbers[ident], Book.kept.known = found and parse(found) or false, Book.kept.known + 1
  end
  return Book.numbers[ident]
end

function Book.put_numbers(ident, numbers)
  Book.change('numbers', ident, numbers)
  Book.numbers[ident] = numbers
  Write.field('computed', ident, pack(numbers))
  Write.score('computes', Book.by_name(ident), 0)
  Write.score('refreshed', ident, now)
  Book.changed()
end

-- The number in force, nil for none.
function Book.number(ident)
  local override = Book.override(Book.key(ident))
  if override then return override[2] or nil end
  return Book.number_without_override(ident)
end

-- What would be in force if operators had not spoken.
function Book.number_without_override(ident)
  local key = Book.key(ident)
  local limit = Book.limit(key.name)
  if not limit or (limit.kind == 'rate') ~= key.rate then return nil end
  local numbers = (limit.per_key or limit.learns) and Book.find_numbers(ident)
  if not numbers then return limit.max end
  if limit.per_key and numbers[4] then return numbers[4] end
  return limit.learns and numbers[1] or limit.max
end

-- Whether any share had a weight when this step began. Those that it gets since are in the book.
function Book.has_weights()
  if Book.kept.weights_known == nil then
    Book.kept.weights_known = call('EXISTS', base .. 'weights', base .. 'declared') > 0
  end
  return Book.kept.weights_known
end

-- The weight of a fair share: an operator's word, else what code declared, else 1.
function Book.weight(share)
  local weight = Book.weights[share]
  if not weight then
    if not Book.has_weights() then return 1 end
    local text = call('HGET', base .. 'weights', share) or call('HGET', base .. 'declared', share)
    weight = text and tonumber(parse(text)[2]) or 1
    Book.weights[share], Book.kept.known = weight, Book.kept.known + 1
  end
  return weight
end

function Book.rule(ident)
  local rule = Book.rules[ident]
  if rule then return rule end
  local key, number = Book.key(ident), Book.number(ident)
  local limit = Book.limit(key.name)
  if not key.rate then
    rule = {
      max = number, sized = limit and limit.sized or false, sums = limit and limit.sums or false,
      gate = Book.all_gates()[ident] or false,
    }
    rule.lines_up = rule.sized or rule.gate
  elseif not limit or limit.kind ~= 'rate' then
    rule = {rate = true, lines_up = true, period = 1, burst = 1, interval = 1, most = 0}
  else
    local burst = limit.algorithm == 'leaky' and 1 or limit.burst or number
    local exact = limit.algorithm == 'sliding_window'
    burst = (burst and burst ~= 0) and burst or 1
    local some = number and number > 0
    rule = {
      rate = true, lines_up = true, limit = number, period = limit.period, burst = burst, exact = exact,
      estimated = limit.estimated,
      interval = some and Rates.ceil_div(limit.period, number) or limit.period,
      most = not some and 0 or exact and number or burst,
    }
  end
  Book.rules[ident], Book.kept.known = rule, Book.kept.known + 1
  return rule
end

-- Whether the cap of a task or queue is there: declared, or put up by an operator.
function Book.is_cap(ident)
  local cap = Book.caps[ident]
  if cap == nil then
    local key = Book.key(ident)
    local limit = Book.limit(key.name)
    local bounds = limit and not limit.max and limit.policy and limit.policy.max_waiting
    if limit and limit.kind == 'rate' then
      cap = false
    else
      cap = (limit and not bounds or Book.override(key) ~= nil) and true or false
    end
    Book.caps[ident] = cap
  end
  return cap
end

-- Uses of undeclared limits would admit everything. A limit hears here of units other than one.
function Book.wrong_use(uses)
  for _, use in ipairs(uses or Lines.NONE) do
    if use[3] ~= true then
      local key = Book.key(use[1])
      local limit = Book.limit(key.name)
      if not limit then return {'undeclared', key.name} end
      if (limit.kind == 'rate') ~= key.rate then return {'otherwise', key.name, limit.kind} end
      if use[2] ~= 1 and not key.rate and not limit.sums then Book.sum_units(key.name, limit) end
    end
  end
  return nil
end
