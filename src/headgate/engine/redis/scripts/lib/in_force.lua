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
      of = rules, known = 0, stamp = Book.stamps, limits = {}, rules = {}, caps = {}, computed = {}, overridden = {},
    }
    Book.shelf[base] = kept
  end
  Book.kept, Book.limits, Book.rules, Book.caps, Book.computed = kept, kept.limits, kept.rules, kept.caps, kept.computed
  Book.overridden, Book.stamp, Book.changes = kept.overridden, kept.stamp, nil
end

-- A rule is about to be changed: from here on this step has a book of its own, and the next one will read it anew.
function Book.change(...)
  Book.shelf[base] = nil
  if not Book.changes then
    Book.limits, Book.computed = {}, {}
  end
  Book.changes = (Book.changes or Store.meta[4] or Store.meta[2]) .. pack({...})
end

-- The numbers that follow from the rules are no longer what they were.
function Book.changed()
  Book.stamps = Book.stamps + 1
  Book.kept, Book.rules, Book.caps, Book.overridden, Book.stamp = {known = 0}, {}, {}, {}, Book.stamps
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
    limit = false
    if found then
      local l = parse(found)
      limit = {name = l[1], kind = l[2], max = l[3] or nil, period = l[4], burst = l[5] or nil, algorithm = l[6]}
    end
    Book.limits[name], Book.kept.known = limit, Book.kept.known + 1
  end
  return limit
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

function Book.find_computed(ident)
  if Book.computed[ident] == nil then
    local found = call('HGET', base .. 'computed', ident)
    Book.computed[ident] = found and parse(found)[1] or false
  end
  return Book.computed[ident]
end

-- The number in force, nil for none.
function Book.number(ident)
  local key = Book.key(ident)
  local override = Book.override(key)
  if override then return override[2] or nil end
  local limit = Book.limit(key.name)
  if not limit or (limit.kind == 'rate') ~= key.rate then return nil end
  return limit.kind == 'floating' and Book.find_computed(ident) or limit.max
end

function Book.rule(ident)
  local rule = Book.rules[ident]
  if rule then return rule end
  local key, number = Book.key(ident), Book.number(ident)
  local limit = Book.limit(key.name)
  if not key.rate then
    rule = {max = number}
  elseif not limit or limit.kind ~= 'rate' then
    rule = {rate = true, period = 1, burst = 1, interval = 1, most = 0}
  else
    local burst = limit.algorithm == 'leaky' and 1 or limit.burst or number
    local exact = limit.algorithm == 'sliding_window'
    burst = (burst and burst ~= 0) and burst or 1
    local some = number and number > 0
    rule = {
      rate = true, limit = number, period = limit.period, burst = burst, exact = exact,
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
    if limit then cap = limit.kind ~= 'rate' else cap = Book.override(key) ~= nil end
    Book.caps[ident] = cap
  end
  return cap
end

-- Uses of undeclared limits would admit everything.
function Book.wrong_use(uses)
  for _, use in ipairs(uses or {}) do
    if not use[3] then
      local key = Book.key(use[1])
      local limit = Book.limit(key.name)
      if not limit then return {'undeclared', key.name} end
      if (limit.kind == 'rate') ~= key.rate then return {'otherwise', key.name, limit.kind} end
    end
  end
  return nil
end
