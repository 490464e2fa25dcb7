-- sweep: what time does, each duty bounded.
-- answers {due, lost, offered, expired, more, next_due, now}. Cost: at most 1000 of each kind.
local MOST = 1000

local function until_now(name, most)
  return call('ZRANGEBYSCORE', base .. name, '-inf', now_text, 'LIMIT', '0', format('%d', most))
end

local function arrivals()
  local ids = {}
  for i, member in ipairs(until_now('scheduled', MOST)) do ids[i] = sub(member, 13) end
  Store.load(ids)
  for _, id in ipairs(ids) do Moves.come(Store.job(id)) end
  return #ids
end

local function lose_worker(worker, most)
  local key = base .. 'run:' .. worker
  local running = call('ZRANGE', key, 0, most - 1)
  if most < 1 then running = {} end
  Store.load(running)
  for _, id in ipairs(running) do Moves.lose(Store.job(id)) end
  if #running == call('ZCARD', key) then
    Write.field('workers', worker, false)
    Write.score('leases', worker, false)
  end
  return #running
end

local function lost()
  local count = 0
  for _, worker in ipairs(until_now('leases', MOST)) do
    count = count + lose_worker(worker, MOST - count)
  end
  return count
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

local function forget_meters()
  for _, ident in ipairs(until_now('meters', MOST)) do Write.score('meters', ident, false) end
  for _, ident in ipairs(until_now('windows', MOST)) do
    local rule = Book.rule(ident)
    if not rule.exact or Window.load(ident, rule).spent <= 0 then
      Window.forget(ident)
    else
      Write.score('windows', ident, now + rule.period)
    end
  end
end

local function verb()
  local due, gone = arrivals(), lost()
  local rung = timers()
  reservations()
  overrides()
  local expired = retention()
  forget_meters()
  local offered = Admission.offer()
  local more = due == MOST or gone == MOST or rung == MOST or expired == MOST
  Step.finish()
  local next_due = Step.next_due()
  return {due, gone, offered, expired, more, next_due, now}
end
