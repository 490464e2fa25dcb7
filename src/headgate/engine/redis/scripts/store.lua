-- The step: one script call's view of a partition. Part of every script.
--
-- Redis does not undo a script that fails half-way. So nothing is written while a step decides: changes are kept in
-- tables of this script, reads look through them, and `Store.write` puts all of it down at the end, when nothing can
-- fail any more (Redis refuses a script for want of memory, rights or replicas at its first write, never later).
--
-- key 1      the partition's `meta` key: the rest of its keys share its beginning, and so its hash slot
-- argument 1 header (msgpack map): now, epoch, version, settings, fail     argument 2  the verb's input (msgpack)
-- arguments 3 and on: jobs as Python packed them; scripts keep them as they are
--
-- The keys of a partition, with what each costs, are listed in catalogue.py.

-- Where the server has functions (Redis 7, Valkey) all of this is loaded once, and `Step.reset` makes it forget the last
-- call. Elsewhere it is made anew for each call, and whatever a function uses from outside of it costs a little each
-- time: hence few names at this level, and tables of functions under them.

local call, pack, parse, base, header, settings, now, arguments
local Text, Lines, Write = {}, {}, {}
local Store = {ENDED = {succeeded = true, failed = true, cancelled = true}}
local Rates, Book, Ledger, Admission, Lifecycle, Moves, Looking, Step = {}, {}, {}, {}, {}, {}, {}, {}

-- Numbers of sixteen digits: joining them to a text with `..` would round them.
function Text.whole(number)
  return string.format('%.0f', number)
end

-- Two texts as one from which both can be told, whatever characters they contain.
function Text.join(first, second)
  return #first .. ':' .. first .. second
end

function Text.parted(text)
  local colon = string.find(text, ':', 1, true)
  local length = tonumber(string.sub(text, 1, colon - 1))
  return string.sub(text, colon + 1, colon + length), string.sub(text, colon + length + 1)
end

-- A refusal that the caller understands; nothing has been written yet.
function Store.refuse(...)
  error({refused = {...}})
end

-- Tests break a step here; see faults.py.
function Store.may_fail(place)
  if header.fail and header.fail[place] then
    error('broken on purpose: ' .. place)
  end
end

function Write.slices(list, act)
  for first = 1, #list, 2000 do
    act(unpack(list, first, math.min(first + 1999, #list)))
  end
end

-- ── lines: sorted sets of score 0, read in the order of their members ─────────────────────────────────────────────

function Lines.at(kind, key, queue, other)
  local line = Lines.all[key]
  if not line then
    line = {kind = kind, key = base .. key, queue = queue, other = other, added = {}, gone = {}, more = 0, less = 0}
    Lines.all[key] = line
    if kind == 'wait' then
      Lines.on[other] = Lines.on[other] or {}
      table.insert(Lines.on[other], line)
    end
  end
  return line
end

function Lines.ready(queue) return Lines.at('ready', 'ready:' .. queue, queue) end
function Lines.aside(queue, task) return Lines.at('aside', 'aside:' .. Text.join(queue, task), queue, task) end
function Lines.waiting(key, queue) return Lines.at('wait', 'wait:' .. Text.join(queue, key), queue, key) end

function Lines.add(line, member)
  if line.gone[member] then
    line.gone[member], line.less = nil, line.less - 1
  else
    line.added[member], line.more = true, line.more + 1
  end
  line.changed = true
end

function Lines.remove(line, member)
  if line.added[member] then
    line.added[member], line.more = nil, line.more - 1
  else
    line.gone[member], line.less = true, line.less + 1
  end
  line.changed = true
end

function Lines.size(line)
  line.stored = line.stored or call('ZCARD', line.key)
  return line.stored + line.more - line.less
end

-- The first members. Cost: those asked for, and those that this step put in or took out.
function Lines.first(line, most)
  if most < 1 then return {} end
  local found = {}
  for _, member in ipairs(call('ZRANGE', line.key, 0, most + line.less - 1)) do
    if not line.gone[member] then found[#found + 1] = member end
  end
  if line.more > 0 then
    for member in pairs(line.added) do found[#found + 1] = member end
    table.sort(found)
  end
  for extra = #found, most + 1, -1 do found[extra] = nil end
  return found
end

-- ── what is only written ──────────────────────────────────────────────────────────────────────────────────────────

-- A member of a sorted set by time; false takes it out.
function Write.score(name, member, score)
  Write.by_score[name] = Write.by_score[name] or {}
  Write.by_score[name][member] = score or false
end

-- A field of a hash; false deletes it.
function Write.field(name, field, value)
  Write.by_field[name] = Write.by_field[name] or {}
  Write.by_field[name][field] = value == nil and false or value
end

function Write.count(job, by)
  local counts = Write.by_count[job.life.state]
  if not counts then
    counts = {}
    Write.by_count[job.life.state] = counts
  end
  counts[job.queue] = (counts[job.queue] or 0) + by
end

-- ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────
--
-- A job's hash has `spec` (Python's), `need` (what admission asks, hardly ever changed), `life` (what moves),
-- `past` (attempts that did not end it, one packed after the other), `result` and `progress`.

function Store.unfold(id, need, life)
  local n, l = parse(need), parse(life)
  return {
    id = id, task = n[1], queue = n[2], tenant = n[3], priority = n[4], uses = n[5], retry = n[6], unique = n[7],
    retention = n[8], life = l, seq = l.seq,
  }
end

function Store.job(id)
  local job = Store.jobs[id]
  if job == nil then
    local found = call('HMGET', base .. 'job:' .. id, 'need', 'life')
    job = found[1] and Store.unfold(id, found[1], found[2]) or false
    Store.jobs[id] = job
  end
  return job
end

-- The same for a job that is about to be claimed, with what its worker will want to read.
function Store.claimable(id)
  local job = Store.jobs[id]
  if not job then
    local found = call('HMGET', base .. 'job:' .. id, 'need', 'life', 'spec', 'progress')
    job = Store.unfold(id, found[1], found[2])
    job.told, job.report = found[3], found[4]
    Store.jobs[id] = job
  end
  return job
end

function Store.id(member)
  return string.sub(member, 31)
end

-- The job of a line's member, which is its rank.
function Store.ranked(job, member)
  job.rank, job.ranked = member, job.life.due
  return job
end

-- Priority, due time, arrival and id, so that byte order is the order of a claim. Due times may lie before 1970.
function Store.rank(job)
  if job.ranked ~= job.life.due then
    job.ranked = job.life.due
    job.rank = string.format('%02d%016.0f%012.0f', job.priority, job.life.due + 1e15, job.seq) .. job.id
  end
  return job.rank
end

function Store.by_arrival(job)
  return string.format('%012.0f', job.seq) .. job.id
end

function Store.rival_field(job)
  return Text.join(job.tenant, job.unique)
end

function Store.rival(tenant, unique)
  local field = Text.join(tenant, unique)
  if Store.unique[field] == nil then
    Store.unique[field] = call('HGET', base .. 'unique', field)
  end
  return Store.unique[field] and Store.job(Store.unique[field]) or nil
end

function Store.line(job)
  local life = job.life
  if life.state == 'waiting' then return Lines.waiting(life.waiting_on, job.queue) end
  return life.aside and Lines.aside(job.queue, job.task) or Lines.ready(job.queue)
end

-- Units of a key that are promised to ready jobs of a queue. A sum, since tokens have no records to be counted: it is
-- moved wherever a job's own `offered_by` changes, and nowhere else.
function Store.offered(ident, queue)
  local field = Text.join(queue, ident)
  if not Store.promised[field] then
    Store.promised[field] = tonumber(call('HGET', base .. 'offers', field)) or 0
  end
  return Store.promised[field]
end

function Store.promise(job, by)
  local ident = job.life.offered_by
  if ident then
    local number = Store.offered(ident, job.queue) + by * job.life.units
    Store.promised[Text.join(job.queue, ident)] = number
    Write.field('offers', Text.join(job.queue, ident), number ~= 0 and number)
  end
end

function Store.leave(job)
  local life = job.life
  Store.promise(job, -1)
  if life.state == 'ready' or life.state == 'waiting' then
    Lines.remove(Store.line(job), Store.rank(job))
  elseif life.state == 'scheduled' then
    Write.score('scheduled', Store.by_arrival(job), false)
  elseif life.state == 'running' then
    Write.score('run:' .. life.worker, job.id, false)
    if life.cancel then Write.score('stop:' .. life.worker, job.id, false) end
  else
    Write.score('ended', job.id, false)
  end
  Write.count(job, -1)
  if job.unique and not Store.ENDED[life.state] then
    local rival = Store.rival(job.tenant, job.unique)
    if rival and rival.id == job.id then
      Store.unique[Store.rival_field(job)] = false
      Write.field('unique', Store.rival_field(job), false)
    end
  end
end

function Store.enter(job)
  local life = job.life
  Store.promise(job, 1)
  if life.state == 'ready' or life.state == 'waiting' then
    Lines.add(Store.line(job), Store.rank(job))
  elseif life.state == 'scheduled' then
    Write.score('scheduled', Store.by_arrival(job), life.due)
  elseif life.state == 'running' then
    Write.score('run:' .. life.worker, job.id, job.seq)
    if life.cancel then Write.score('stop:' .. life.worker, job.id, 0) end
  else
    Write.score('ended', job.id, life.expires_at)
  end
  Write.count(job, 1)
  if job.unique and not Store.ENDED[life.state] and not Store.rival(job.tenant, job.unique) then
    Store.unique[Store.rival_field(job)] = job.id
    Write.field('unique', Store.rival_field(job), job.id)
  end
end

-- Set fields (false clears one) and move the job to where they put it.
function Store.change(job, fields)
  if job.fresh then job.fresh = nil else Store.leave(job) end
  local life = job.life
  for name, value in pairs(fields) do
    life[name] = value or nil
  end
  Store.enter(job)
  Store.dirty[job.id] = job
end

function Store.next_seq()
  Store.seq = (Store.seq or tonumber(Store.meta[3]) or 0) + 1
  return Store.seq
end

-- A new job, due or not, that stands nowhere yet: `Store.change` puts it where it belongs. Python packed `need` and
-- `spec`; scripts keep both as they are.
function Store.add(new, enqueued_at, due)
  local job = new
  job.seq, job.fresh = Store.next_seq(), true
  job.life = {
    state = 'scheduled', due = due, attempt = 0, tries = 0, units = 0, seq = job.seq, enqueued_at = enqueued_at,
  }
  Store.jobs[job.id], Store.dirty[job.id], Store.deleted[job.id] = job, job, nil
  return job
end

-- An ended job is gone.
function Store.remove(job)
  Store.leave(job)
  Store.jobs[job.id], Store.dirty[job.id], Store.deleted[job.id] = false, nil, true
end

-- An attempt that has ended without ending its job.
function Store.remember(job, attempt)
  job.past = (job.past or call('HGET', base .. 'job:' .. job.id, 'past') or '') .. pack(attempt)
  job.life.past = (job.life.past or 0) + 1
end

-- ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

function Write.job(job)
  local key, life = base .. 'job:' .. job.id, pack(job.life)
  if job.spec then
    call('HSET', key, 'life', life, 'need', job.need, 'spec', job.spec)
    Write.score('jobs', job.id, job.seq)
  elseif job.result then
    call('HSET', key, 'life', life, 'result', job.result)
  else
    call('HSET', key, 'life', life)
    if job.need then call('HSET', key, 'need', job.need) end
  end
  if job.past then call('HSET', key, 'past', job.past) end
  if job.progress then call('HSET', key, 'progress', job.progress) end
  if job.result == false then call('HDEL', key, 'result') end
end

function Write.line(line)
  local gone, added = {}, {}
  for member in pairs(line.gone) do gone[#gone + 1] = member end
  for member in pairs(line.added) do added[#added + 1], added[#added + 2] = 0, member end
  local size = Lines.size(line)
  Write.slices(gone, function(...) call('ZREM', line.key, ...) end)
  Write.slices(added, function(...) call('ZADD', line.key, ...) end)
  if size == line.stored then return end
  if size == 0 or line.stored == 0 then Store.index(line, size > 0) end
end

-- Which lines there are: queues with ready jobs, (queue, task) set aside, queues that wait on a key.
function Store.index(line, exists)
  local verb = exists and 'SADD' or 'SREM'
  if line.kind == 'ready' then
    call(verb, base .. 'queues', line.queue)
  elseif line.kind == 'aside' then
    call(verb, base .. 'asides', Text.join(line.queue, line.other))
  else
    local queues = base .. 'waitq:' .. line.other
    call(verb, queues, line.queue)
    if exists then
      Write.score('waited', Store.by_name(line.other), 0)
    elseif call('EXISTS', queues) == 0 then
      Write.score('waited', Store.by_name(line.other), false)
    else
      Write.score('waited', Store.by_name(line.other), 0)
    end
  end
end

function Write.scores(name, members)
  local gone, added = {}, {}
  for member, score in pairs(members) do
    if score then added[#added + 1], added[#added + 2] = score, member else gone[#gone + 1] = member end
  end
  Write.slices(gone, function(...) call('ZREM', base .. name, ...) end)
  Write.slices(added, function(...) call('ZADD', base .. name, ...) end)
end

function Write.fields(name, fields)
  local gone, added = {}, {}
  for field, value in pairs(fields) do
    if value then added[#added + 1], added[#added + 2] = field, value else gone[#gone + 1] = field end
  end
  Write.slices(gone, function(...) call('HDEL', base .. name, ...) end)
  Write.slices(added, function(...) call('HSET', base .. name, ...) end)
end

function Write.counts()
  for state, counts in pairs(Write.by_count) do
    for queue, by in pairs(counts) do
      local field = state .. ':' .. queue
      if by ~= 0 and call('HINCRBY', base .. 'counts', field, by) == 0 then
        call('HDEL', base .. 'counts', field)
      end
    end
  end
end

function Store.write()
  for id in pairs(Store.deleted) do
    call('DEL', base .. 'job:' .. id)
    Write.score('jobs', id, false)
  end
  for _, job in pairs(Store.dirty) do Write.job(job) end
  for _, line in pairs(Lines.all) do
    if line.changed then Write.line(line) end
  end
  for name, fields in pairs(Write.by_field) do Write.fields(name, fields) end
  for name, members in pairs(Write.by_score) do Write.scores(name, members) end
  Write.counts()
  if Store.seq then call('HSET', base .. 'meta', 'seq', Store.seq) end
end
