-- store: store very many new jobs, all or none, as scheduled; those that are due have yet to arrive (arrive.lua). Should
-- the caller die before, they arrive with the sweeps.
-- input {limits, ids, the number of each one's way, ways, uses}; a way is what many have in common: {delay, at or false,
-- the number of the argument with its need, queue, the field of its unique key or false, false or {start_within, start_by,
-- at_most, numbers that it brings}}; uses are one of each limit and size
-- arguments 3 and on: specs, then needs
-- answers whether it did: false, with nothing changed, where an id or a unique key is taken, or where one might be refused
-- for a full backlog. Cost: per job its writes.
local function are_ids_free(ids)
  local seen, keys, start = {}, {}, base .. 'job:'
  for i, id in ipairs(ids) do
    if seen[id] then return false end
    seen[id], keys[i] = true, start .. id
  end
  for first = 1, #keys, 2000 do
    if call('EXISTS', unpack(keys, first, math.min(first + 1999, #keys))) > 0 then return false end
  end
  return true
end

local function are_keys_free(numbers, ways)
  local seen, fields = {}, {}
  for _, number in ipairs(numbers) do
    local field = ways[number][5]
    if field and seen[field] then return false end
    if field then seen[field], fields[#fields + 1] = true, field end
  end
  for first = 1, #fields, 1000 do
    for _, id in ipairs(call('HMGET', base .. 'unique', unpack(fields, first, math.min(first + 999, #fields)))) do
      if id then return false end
    end
  end
  return true
end

-- Whether none of them can be refused for a full backlog.
local function may_all_enter(ways, uses)
  local function is_open(ident)
    local policy = Book.policy(ident)
    return not policy or not policy.max_waiting or policy.on_overflow ~= 'refuse'
  end
  for _, way in ipairs(ways) do
    if not is_open(Full.queue_ident(way[4])) then return false end
  end
  for _, use in ipairs(uses) do
    if not is_open(use[1]) then return false end
  end
  return true
end

-- A record of a scheduled job, in pieces between which its due time, arrival and need stand: what it begins with by its
-- due time, what stands behind the arrival, and behind the need.
local function pieces()
  local job, heads = Store.table_for('', {text = ''}), {}
  Store.newborn(job, 'scheduled', now, now)
  local text = Store.folded(job)
  setmetatable(heads, {__index = function(made, due)
    local head = sub(text, 2, Store.SEQ_AT - 9) .. struct.pack('>d', due)
    made[due] = head
    return head
  end})
  return heads, sub(text, Store.SEQ_AT + 8, Store.NEED_AT - 1), sub(text, Store.NEED_AT + 4)
end

-- The state and the tail of the record of a job that brings numbers, or must start by some time.
local function begin(id, more, brings)
  if brings then Transitions.bring(more[4] or nil) end
  local start_by = more[2] or more[1] and now + more[1]
  if not start_by then return string.char(Store.CODES.scheduled), '' end
  Write.put('starting', format('%d', start_by), id)
  return string.char(Store.CODES.scheduled + Store.MORE), Store.more_tail({tag = 0, start_by = start_by})
end

local function add_all(ids, numbers, ways)
  local heads, middle, tail = pieces()
  local records, jobs, line, last = Write.records, Write.of(Write.puts, 'jobs'), Write.of(Write.puts, 'scheduled'), 0
  local scheduled = string.char(Store.CODES.scheduled)
  for i, id in ipairs(ids) do
    local way, seq, spec = ways[numbers[i]], Store.next_seq(), arguments[2 + i]
    local due, need, arrival = way[2] or now + way[1], arguments[way[3]], format('%012d', seq)
    local state, more = scheduled, ''
    if way[6] then state, more = begin(id, way[6], i == 1 or numbers[i] ~= numbers[i - 1]) end
    records[2 * last + 1] = base .. 'job:' .. id
    records[2 * last + 2] = state .. heads[due] .. struct.pack('>d', seq) .. middle .. struct.pack('>I4', #need) .. need
      .. tail .. more
    records[2 * last + 3], records[2 * last + 4] = base .. 'spec:' .. id, spec
    jobs[last + 1], jobs[last + 2] = arrival, id
    line[last + 1], line[last + 2] = due == now and now_text or format('%d', due), arrival .. id
    last = last + 2
    Write.moved(false, 'scheduled', way[4], seq)
    if way[5] then Write.field('unique', way[5], id) end
    if due > now then Store.call_workers = true end
  end
end

local function verb(given)
  local ids, numbers, ways = given[2], given[3], given[4]
  if not are_ids_free(ids) or not are_keys_free(numbers, ways) then return false end
  Transitions.declare(given[1])
  if not may_all_enter(ways, given[5]) then return 'full' end
  local wrong = Book.wrong_use(given[5])
  if wrong then Store.refuse(unpack(wrong)) end
  add_all(ids, numbers, ways)
  return true
end
