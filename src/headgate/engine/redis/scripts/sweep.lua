-- sweep: what time does, each duty bounded.
-- answers {due, lost, offered, expired, more, next_due, now}. Cost: at most 1000 of each kind.
local MOST = 1000

local function until_now(name, most)
  return call('ZRANGEBYSCORE', base .. name, '-inf', now, 'LIMIT', 0, most)
end

local function arrivals()
  local due = until_now('scheduled', MOST)
  for _, member in ipairs(due) do Moves.come(Store.job(string.sub(member, 13))) end
  return #due
end

local function lose_worker(worker, most)
  local key = base .. 'run:' .. worker
  local running = call('ZRANGE', key, 0, most - 1)
  if most < 1 then running = {} end
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
    if job and job.life.holds and job.life.holds[ident] then
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
  for id, at in pairs(Write.by_score.ended or {}) do
    if at and at <= now and #old < MOST then old[#old + 1] = id end
  end
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
  return {due, gone, offered, expired, more, Step.next_due(), now}
end
