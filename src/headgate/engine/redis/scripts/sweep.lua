-- sweep: what time does, each duty bounded.
-- answers {due, lost, offered, expired, more, next_due, now, {{id, task, error} …} of jobs that failed by loss}.
-- Cost: at most 1000 of each kind, except that a worker is lost with all that it ran.
local MOST, IDLE = 1000, 3600 * 1000000

local function until_now(name, most)
  return call('ZRANGEBYSCORE', base .. name, '-inf', now_text, 'LIMIT', '0', format('%d', most))
end

local function arrivals()
  local ids = {}
  for i, member in ipairs(until_now('scheduled', MOST)) do ids[i] = sub(member, 13) end
  Store.load(ids)
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    if job and job.state == 'scheduled' then Moves.come(job) end
  end
  return #ids
end

-- Whole workers, since blame compares what one ran; the bound is checked between them.
local function lost()
  local count, failed = 0, {}
  for _, worker in ipairs(until_now('leases', MOST)) do
    if count >= MOST then break end
    local attempts, gone = Moves.lose_worker(worker)
    count = count + attempts
    for _, row in ipairs(gone) do failed[#failed + 1] = row end
  end
  return count, failed
end

local function timers()
  local rung = until_now('timers', MOST)
  for _, ident in ipairs(rung) do Admission.touch(ident) end
  return #rung
end

-- A reservation whose job was offered and not claimed in time is dropped (rule 7).
local function reservations()
  for _, member in ipairs(until_now('reserved', MOST)) do
    local id, ident = Text.parted(member)
    local job = Store.job(id)
    if job and job.holds and job.holds.keys[ident] then
      Ledger.let_go(ident, job)
      Admission.touch(ident)
    end
  end
end

local function overrides()
  for _, scope in ipairs(until_now('untils', MOST)) do
    Moves.set_override(parse(call('HGET', base .. 'overrides', scope))[1], scope, false)
  end
end

-- Old jobs, also those that ended in this very step and are not to be kept at all.
local function retention()
  local old = until_now('ended', MOST)
  for _, job in ipairs(Store.dirty) do
    if Store.ENDED[job.state] and job.expires_at <= now and #old < MOST then old[#old + 1] = job.id end
  end
  Store.load(old)
  for _, id in ipairs(old) do Store.remove(Store.job(id)) end
  return #old
end

-- Full buckets and empty windows; whether there may be more of them.
local function forget_meters()
  local full = until_now('meters', MOST)
  for _, ident in ipairs(full) do Write.score('meters', ident, false) end
  local empty = until_now('windows', MOST)
  for _, ident in ipairs(empty) do
    local rule = Book.rule(ident)
    if not rule.exact or Window.load(ident, rule).spent <= 0 then
      Window.forget(ident)
    else
      Write.score('windows', ident, now + rule.period)
    end
  end
  return #full == MOST or #empty == MOST
end

-- Computed numbers of keys that have been neither held nor waited for since an hour ago; the others are looked at again.
local function forget_computed()
  local old = call('ZRANGEBYSCORE', base .. 'refreshed', '-inf', Text.whole(now - IDLE), 'LIMIT', '0', Text.whole(MOST))
  for _, ident in ipairs(old) do
    if Ledger.held(ident) > 0 or #Ledger.stored_queues(ident) > 0 then
      Write.score('refreshed', ident, now)
    else
      Book.change('forgotten', ident)
      Write.field('computed', ident, false)
      Write.score('computes', Book.by_name(ident), false)
      Write.score('refreshed', ident, false)
    end
  end
  return #old == MOST
end

local function verb()
  local due = arrivals()
  local gone, failed = lost()
  local rung = timers()
  reservations()
  overrides()
  local expired = retention()
  local meters, computed = forget_meters(), forget_computed()
  local offered = Admission.offer()
  local more = due == MOST or gone >= MOST or rung == MOST or expired == MOST or meters or computed
  Step.finish()
  local next_due = Step.next_due()
  return {due, gone, offered, expired, more, next_due, now, failed}
end
