-- snapshot: everything that admission depends on, at one instant.
-- answers {jobs, {{ident, {{id, reserved} …}} …}, {{ident, free or false} …}, {{ident, at} …}, {worker …}, now,
-- {{ident, most} …}}. Cost: the whole partition; for the audit, not for every day.
local function view(job)
  local need, uses = job.need, {}
  for i, use in ipairs(Ledger.uses(job)) do uses[i] = {use[1], use[2]} end
  return {job.id, job.state, need.queue, need.task, need.priority, job.seq, job.due, uses, job.waiting_on or false,
    job.offered_by or false, job.refusals or false, job.worker or false, job.attempt, job.tries, job.aside or false}
end

local function holders(keys)
  local found = {}
  for _, ident in ipairs(Looking.idents('helds', false)) do
    local all, who = call('HGETALL', base .. 'held:' .. ident), {}
    for i = 1, #all, 2 do who[#who + 1] = {all[i], string.sub(all[i + 1], -1) == 'r'} end
    found[#found + 1], keys[ident] = {ident, who}, true
  end
  return found
end

local function most_of()
  local most = {}
  for _, ident in ipairs(Looking.idents('waited', false)) do
    local rule = Book.rule(ident)
    if rule.rate and rule.limit then most[#most + 1] = {ident, rule.most} end
  end
  return most
end

local function verb()
  local views, keys, free, timers = {}, {}, {}, {}
  local ids = call('ZRANGE', base .. 'jobs', 0, -1)
  Store.load(ids)
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    if not Store.ENDED[job.state] then
      views[#views + 1] = view(job)
      if job.waiting_on then keys[job.waiting_on] = true end
      if job.offered_by then keys[job.offered_by] = true end
    end
  end
  local held = holders(keys)
  for ident in pairs(keys) do
    local left = Admission.free(ident)
    free[#free + 1] = {ident, left < Admission.UNLIMITED and left}
  end
  local armed = call('ZRANGE', base .. 'timers', 0, -1, 'WITHSCORES')
  for i = 1, #armed, 2 do timers[#timers + 1] = {armed[i], tonumber(armed[i + 1])} end
  return {views, held, free, timers, call('HKEYS', base .. 'workers'), now, most_of()}
end
