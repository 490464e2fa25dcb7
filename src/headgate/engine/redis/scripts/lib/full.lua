-- What becomes of a job for which there is no room (rule 19): full.py, in Lua. Part of every script. The Python page
-- explains; this one decides alike, with the texts of turned_away.py.

Full.SLICE = 200 -- waiters that one newcomer can replace in a step; where there are more, the next newcomers go on
Full.HOLDERS = 1000 -- holders among which the one that runs longest is looked for
Full.EXPIRED = 'expired: it was not started in time'
Full.queues, Full.queues_known = {}, 0

-- The cap of a queue, whose limit bounds its backlog.
function Full.queue_ident(queue)
  local ident = Full.queues[queue]
  if not ident then
    if Full.queues_known > 1000 then Full.queues, Full.queues_known = {}, 0 end
    ident = 'c0:queue:' .. queue
    Full.queues[queue], Full.queues_known = ident, Full.queues_known + 1
  end
  return ident
end

-- ── the words ─────────────────────────────────────────────────────────────────────────────────────────────────────

Full.ESCAPED = {['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t'}

-- A text as Python shows it.
function Full.quoted(text)
  local quote = "'"
  if string.find(text, "'", 1, true) and not string.find(text, '"', 1, true) then quote = '"' end
  local shown = string.gsub(text, '[%c\\\127]', function(one)
    return Full.ESCAPED[one] or format('\\x%02x', string.byte(one))
  end)
  if quote == "'" then shown = string.gsub(shown, "'", "\\'") end
  return quote .. shown .. quote
end

function Full.text(ident)
  local key = Book.key(ident)
  return key.value and key.name .. '=' .. key.value or key.name
end

function Full.shown(ident)
  local text, tenant = Full.quoted(Full.text(ident)), Book.key(ident).tenant
  return tenant ~= '' and text .. ' of tenant ' .. Full.quoted(tenant) or text
end

function Full.dropped(ident)
  return 'dropped: limit ' .. Full.shown(ident) .. " was full (when_full='drop')"
end

function Full.replaced(ident, by)
  return 'replaced: job ' .. Full.quoted(by) .. ' came for limit ' .. Full.shown(ident) .. " (when_full='replace')"
end

function Full.overflowed(ident, most)
  return 'dropped: ' .. Text.whole(most) .. ' jobs wait for ' .. Full.shown(ident) .. ' already (max_waiting)'
end

-- ── those that wait already ───────────────────────────────────────────────────────────────────────────────────────

-- Jobs of all queues that wait on a key. Cost: the queues that wait on it.
function Full.count_waiting(ident)
  local count = 0
  for _, queue in ipairs(Ledger.queues_waiting(ident)) do count = count + Lines.size(Lines.waiting(ident, queue)) end
  return count
end

-- Ready and waiting jobs of a queue: as counted, and from then on as this step moves them.
function Full.count_pending(queue)
  if not Full.pending[queue] then
    local found = call('HMGET', base .. 'counts', 'ready:' .. queue, 'waiting:' .. queue)
    local count = (tonumber(found[1] or 0)) + (tonumber(found[2] or 0))
    for _, job in ipairs(Store.dirty) do
      if job.need.queue == queue and not Store.gone[job] then
        count = count + (Full.PENDING[job.state] or 0) - (Full.PENDING[job.was] or 0)
      end
    end
    Full.pending[queue] = count
  end
  return Full.pending[queue]
end

Full.PENDING = {ready = 1, waiting = 1}

function Full.all_waiting(ident, most)
  local found, queues = {}, {}
  for i, queue in ipairs(Ledger.queues_waiting(ident)) do queues[i] = queue end
  table.sort(queues)
  for _, queue in ipairs(queues) do
    local members, ids = Lines.first(Lines.waiting(ident, queue), most - #found), {}
    for i, member in ipairs(members) do ids[i] = sub(member, 47) end
    Store.load(ids)
    for _, member in ipairs(members) do found[#found + 1] = Ledger.waiter(member) end
  end
  return found
end

-- Of the members of some lines the first in order among those of the least urgent priority; nil if there are none.
function Full.last_of(lines)
  local priority, first = nil, nil
  for _, line in ipairs(lines) do
    local last = Lines.last(line)
    if last and (not priority or sub(last, 1, 2) > priority) then priority = sub(last, 1, 2) end
  end
  for _, line in ipairs(priority and lines or Lines.NONE) do
    local member = Lines.first_from(line, priority, 1)[1]
    if member and (not first or member < first) then first = member end
  end
  return first
end

function Full.last_in_line(ident)
  local lines = {}
  for i, queue in ipairs(Ledger.queues_waiting(ident)) do lines[i] = Lines.waiting(ident, queue) end
  local member = Full.last_of(lines)
  return member and Ledger.waiter(member)
end

function Full.last_pending(queue)
  local member = Full.last_of({Lines.crowd(queue)})
  local job = member and Store.job(sub(member, 47))
  return job and Full.PENDING[job.state] and job
end

-- Whether a limit is that of a queue whose backlog loses its oldest: then all its pending jobs stand in one line, too.
function Full.is_crowded(limit)
  local policy = limit and limit.policy
  return policy and policy.max_waiting and policy.on_overflow == 'drop_oldest' and sub(limit.name, 1, 6) == 'queue:'
end

Full.FILLED = 200 -- arrivals that are looked at in one step

-- A limit has changed. Jobs that are there already get into that line a slice at a time, newest first; `filling` keeps
-- how far that has come. Whatever moves meanwhile sees to itself.
function Full.policy_changed(before, after)
  local was, is, queue = Full.is_crowded(before), Full.is_crowded(after), sub(after.name, 7)
  if is and not was then
    Full.fill(queue, '+inf')
  elseif was and not is then
    Write.field('filling', queue, false)
    Store.drop('crowd:' .. queue)
    Lines.crowds[queue] = nil
  end
end

function Full.fill(queue, before)
  local rows = call('ZREVRANGEBYSCORE', base .. 'jobs', before, '-inf', 'WITHSCORES', 'LIMIT', '0', Text.whole(Full.FILLED))
  local ids, line = {}, Lines.crowd(queue)
  for i = 1, #rows, 2 do ids[#ids + 1] = rows[i] end
  Store.load(ids)
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    if job and Full.PENDING[job.state] and job.need.queue == queue then Lines.add(line, Store.rank(job)) end
  end
  Write.field('filling', queue, #ids == Full.FILLED and rows[#rows])
end

-- Go on with the lines that are being filled, a slice of one; whether something is left.
function Full.go_on()
  local found = call('HSCAN', base .. 'filling', '0', 'COUNT', '1')[2]
  if found[1] then Full.fill(found[1], '(' .. found[2]) end
  local left = Write.of(Write.by_field, 'filling')[found[1]]
  return left and true or #found > 2
end

-- The running holder of a key that has held it longest and was not asked to stop yet. Cost: its holders, up to a bound;
-- only those that may be it are read.
function Full.longest_running(ident)
  local found, best = {}, nil
  local flat = Ledger.held(ident) > Full.HOLDERS
    and call('HSCAN', base .. 'held:' .. ident, '0', 'COUNT', Text.whole(Full.HOLDERS))[2]
    or call('HGETALL', base .. 'held:' .. ident)
  for i = 1, #flat, 2 do
    local since, reserved = Ledger.read_holder(flat[i + 1])
    if not reserved then found[#found + 1] = {flat[i], since} end
  end
  table.sort(found, function(a, b) return a[2] < b[2] end)
  for _, one in ipairs(found) do
    if best and one[2] > best.since then break end
    local job = Store.job(one[1])
    if job and job.state == 'running' and not job.cancel and Ledger.holds(ident, job) > 0
      and (not best or job.seq < best.job.seq) then
      best = {job = job, since = one[2]}
    end
  end
  return best and best.job
end

-- ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────────

-- Whether the queue takes another job, or made room for it.
function Full.may_enter(job, entering)
  local queue = job.need.queue
  local ident = Full.queue_ident(queue)
  local policy = Book.policy(ident)
  if not policy or not policy.max_waiting or Full.count_pending(queue) < policy.max_waiting then return true end
  local last = policy.on_overflow == 'drop_oldest' and Full.last_pending(queue)
  return Full.overflow(job, policy, ident, last, entering)
end

-- Whether the job stands in the line of the key that refused it.
function Full.may_wait(job, use, entering)
  local ident = use[1]
  local policy = Book.policy(ident)
  if not policy then return true end
  if policy.when_full == 'drop' then
    Transitions.cancel_pending(job, Full.dropped(ident))
    return false
  elseif policy.when_full == 'replace' then
    for _, waiter in ipairs(Full.all_waiting(ident, Full.SLICE)) do
      Transitions.cancel_pending(waiter, Full.replaced(ident, job.id))
    end
  elseif policy.when_full == 'cancel' then
    local running = Full.longest_running(ident)
    if running then Transitions.ask_to_stop(running) end
  end
  if not policy.max_waiting or sub(ident, 1, 9) == 'c0:queue:' or Full.count_waiting(ident) < policy.max_waiting then
    return true
  end
  local last = policy.on_overflow == 'drop_oldest' and Full.last_in_line(ident)
  return Full.overflow(job, policy, ident, last, entering)
end

function Full.overflow(job, policy, ident, last, entering)
  if policy.on_overflow == 'refuse' then
    if entering then Store.refuse('full', ident, policy.max_waiting) end
    return true
  end
  local reason = Full.overflowed(ident, policy.max_waiting)
  if not last or job.need.priority > last.need.priority then
    Transitions.cancel_pending(job, reason)
    return false
  end
  Transitions.cancel_pending(last, reason)
  return true
end
