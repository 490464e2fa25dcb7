-- What a step has decided, written down at its end. Part of every script.
--
-- Whatever follows from a job's state is brought up to date here, from what it was to what it is.

-- What is kept under a name, made when it is first asked for.
function Write.of(tables, name)
  local found = tables[name]
  if not found then
    found = {}
    tables[name] = found
  end
  return found
end

-- A member of a sorted set by time; false takes it out.
function Write.score(name, member, score)
  Write.of(Write.by_score, name)[member] = score or false
end

-- A field of a hash; false deletes it.
function Write.field(name, field, value)
  Write.of(Write.by_field, name)[field] = value == nil and false or value
end

-- One command with as many arguments as Lua's stack takes at once, behind the key if there is one for all of them.
function Write.many(verb, key, list)
  for first = 1, #list, 2000 do
    local last = math.min(first + 1999, #list)
    if key then call(verb, key, unpack(list, first, last)) else call(verb, unpack(list, first, last)) end
  end
end

-- The same for the first so many of a list, behind a key.
function Write.some(verb, key, list, count)
  for first = 1, count, 2000 do call(verb, key, unpack(list, first, math.min(first + 1999, count))) end
end

function Write.scores(name, members)
  local gone, added = {}, {}
  for member, score in pairs(members) do
    if score then
      added[#added + 1], added[#added + 2] = format('%d', score), member
    else
      gone[#gone + 1] = member
    end
  end
  Write.many('ZREM', base .. name, gone)
  Write.many('ZADD', base .. name, added)
end

function Write.fields(name, fields)
  local gone, added = {}, {}
  for field, value in pairs(fields) do
    if value then added[#added + 1], added[#added + 2] = field, value else gone[#gone + 1] = field end
  end
  Write.many('HDEL', base .. name, gone)
  Write.many('HSET', base .. name, added)
end

-- ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Members to put into sorted sets and to take out of them, by the set's name.
function Write.put(name, score, member)
  local list = Write.of(Write.puts, name)
  local size = #list
  list[size + 1], list[size + 2] = score, member
end

function Write.take(name, member)
  local list = Write.of(Write.takes, name)
  list[#list + 1] = member
end

Write.runs, Write.workers = {}, 0

-- The name of the set of what a worker runs; there are few workers, and these names are asked for all the time.
function Write.runs_of(worker)
  local name = Write.runs[worker]
  if not name then
    name = 'run:' .. worker
    if Write.workers > 1000 then Write.runs, Write.workers = {}, 0 end
    Write.runs[worker], Write.workers = name, Write.workers + 1
  end
  return name
end

function Write.run(job, was, state)
  local worker, running = job.was_worker, state == 'running'
  if was == 'running' and not (running and worker == job.worker) then
    Write.take(Write.runs_of(worker), job.id)
    if job.was_cancel then Write.take('stop:' .. worker, job.id) end
    was = false
  end
  if running then
    if was ~= 'running' then Write.put(Write.runs_of(job.worker), Store.arrival(job), job.id) end
    if job.cancel and not (was and job.was_cancel) then Write.put('stop:' .. job.worker, '0', job.id) end
  end
end

-- Everything that follows from what a job was and what it is.
function Write.indexes(job)
  local was, state, queue = job.was, not Store.gone[job] and job.state, job.need.queue
  if was ~= state then Write.moved(was, state, queue, job.seq) end
  if was == 'running' or state == 'running' then Write.run(job, was, state) end
  if state == 'scheduled' then
    Write.put('scheduled', format('%d', job.due), Store.by_arrival(job))
  elseif was == 'scheduled' then
    Write.take('scheduled', Store.by_arrival(job))
  end
  if job.start_by or job.was_start_by then Write.starting(job, was, state) end
  if was ~= state and not (was == 'ready' and state == 'running') and job.need.share then
    Shares.count_move(job.need.place, was, state)
  end
  if Store.ENDED[state] then
    local at = job.expires_at
    if Write.expiry ~= at then Write.expiry, Write.expiry_text = at, format('%d', at) end
    Write.put('ended', Write.expiry_text, job.id)
    if Write.LISTED[state] then Write.put(state, Store.arrival(job), job.id) end
  elseif was and Store.ENDED[was] then
    Write.take('ended', job.id)
    if was ~= 'succeeded' then Write.unlist(job, state) end
  end
  if job.error == Store.UNREADABLE then Write.unlist(job, state) end
  if state == 'ready' and job.readied then Store.readied[queue] = true end
end

Write.UNSTARTED = {scheduled = true, ready = true, waiting = true}

-- Jobs that must have started by some time, while they have not.
function Write.starting(job, was, state)
  local before, after = Write.UNSTARTED[was] and job.was_start_by, Write.UNSTARTED[state] and job.start_by
  if after and after ~= before then
    Write.put('starting', format('%d', after), job.id)
  elseif before and not after then
    Write.take('starting', job.id)
  end
end

function Write.jobs()
  local records, gone, size, start = Write.records, {}, #Write.records, base .. 'job:'
  for _, job in ipairs(Store.dirty) do
    local id = job.id
    if Store.gone[job] then
      gone[#gone + 1], gone[#gone + 2], gone[#gone + 3] = start .. id, base .. 'spec:' .. id, base .. 'past:' .. id
      Write.take('jobs', id)
    else
      job.record = Store.folded(job)
      records[size + 1], records[size + 2] = start .. id, job.record
      size = size + 2
      local spec = Store.specs[id]
      if spec then
        records[size + 1], records[size + 2] = base .. 'spec:' .. id, spec
        size = size + 2
        Write.put('jobs', Store.arrival(job), id)
      end
      if Store.forgotten[id] then call('DEL', base .. 'past:' .. id) end
      if Store.news[id] then call('APPEND', base .. 'past:' .. id, Store.news[id]) end
    end
    Write.indexes(job)
  end
  Write.many('DEL', nil, gone)
  Write.many('MSET', nil, records)
  Write.end_spell()
  for name, members in pairs(Write.takes) do Write.many('ZREM', base .. name, members) end
  for name, members in pairs(Write.puts) do Write.many('ZADD', base .. name, members) end
end

function Store.write()
  if Store.dropped then Write.many('DEL', nil, Store.dropped) end
  Write.jobs()
  Lines.write()
  for name, fields in pairs(Write.by_field) do Write.fields(name, fields) end
  for name, members in pairs(Write.by_score) do Write.scores(name, members) end
  Write.counts()
  Write.blocks()
  Shares.write()
  if Store.indexing then Write.index_older(Store.indexing) end
  if Store.seq then call('HSET', base .. 'meta', 'seq', format('%d', Store.seq)) end
end
