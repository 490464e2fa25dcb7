-- snapshot: what admission depends on. A small partition in one step, with everything; of a larger one a page of its
-- unfinished jobs, and Python asks snapshot_keys and snapshot_rest for the others.
-- input {after (seq) or false}   answers {jobs, seq to go on behind or false, now, {keys, timers, workers, how far shares
-- have come: place, tag …} or false, names of limits whose change is still being acted on}; for keys see
-- snapshot_keys.lua. Cost: at most 150 jobs, and as many keys and timers.
local MOST = 150

local function view(job)
  local need, uses = job.need, {}
  for i, use in ipairs(Ledger.uses(job)) do uses[i] = {use[1], use[2], use[4] or false} end
  return {job.id, job.state, need.queue, need.task, need.priority, job.seq, job.due, uses, job.waiting_on or false,
    job.offered_by or false, job.refusals or false, job.worker or false, job.attempt, job.tries, job.aside == 'aside',
    job.suspicion, job.lost, job.tag, need.share, job.start_by}
end

local function everything(keys)
  local members, beyond = Reading.slice({'helds', 'waited'}, false, false, MOST)
  if beyond or call('ZCARD', base .. 'timers') > MOST then return false end
  for _, member in ipairs(members) do keys[Reading.ident(member)] = true end
  local rows = {}
  for ident in pairs(keys) do rows[#rows + 1] = Reading.key(ident) end
  return {rows, Reading.timers(0, MOST), call('HKEYS', base .. 'workers'), call('HGETALL', base .. 'virtual')}
end

local function verb(given)
  local from, views, keys, last = given[1] and '(' .. Text.whole(given[1]) or '-inf', {}, {}, false
  local found = call('ZRANGEBYSCORE', base .. 'jobs', from, '+inf', 'WITHSCORES', 'LIMIT', '0', Text.whole(MOST))
  local ids = {}
  for i = 1, #found, 2 do ids[#ids + 1], last = found[i], tonumber(found[i + 1]) end
  Store.load(ids)
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    if job and not Store.ENDED[job.state] then
      views[#views + 1] = view(job)
      if job.waiting_on then keys[job.waiting_on] = true end
      if job.offered_by then keys[job.offered_by] = true end
    end
  end
  local beyond, names = #ids == MOST and last, {}
  for name in pairs(Book.changing) do names[#names + 1] = name end
  return {views, beyond, now, not given[1] and not beyond and everything(keys), names}
end
