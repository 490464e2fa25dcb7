-- sweep: what time does, each duty bounded.
-- answers {due, lost, offered, expired, more, next_due, now, {{id, task, error} …} of jobs that failed by loss}.
-- Cost: at most 100 of all kinds together, or 10 of a kind where others have used that up; 1024 jobs of older data.
local MOST, LEAST, IDLE, INDEXED = 100, 10, 3600 * 1000000, 1024
local left, more

-- The members of a sorted set that are due.
local function until_now(name, till)
  local most = math.max(LEAST, left)
  local found = call('ZRANGEBYSCORE', base .. name, '-inf', till or now_text, 'LIMIT', '0', Text.whole(most))
  left, more = left - #found, more or #found == most
  return found
end

-- Jobs that were not started in time end.
local function too_late()
  local ids = until_now('starting')
  Store.load(ids)
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    if job and job.start_by and Transitions.PENDING[job.state] then
      Transitions.cancel_pending(job, Full.EXPIRED)
    else
      Write.take('starting', id) -- its record could not be read
    end
  end
end

local function arrivals()
  local ids = {}
  for i, member in ipairs(until_now('scheduled')) do ids[i] = sub(member, 13) end
  Store.load(ids)
  local count = 0
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    if job and job.state == 'scheduled' then
      Transitions.come(job)
      count = count + 1
    end
  end
  return count
end

local function lost()
  local count, failed = 0, {}
  for place, worker in ipairs(until_now('leases')) do
    if place > 1 and left < 1 then
      more = true
      break
    end
    local attempts, gone, beyond = Transitions.lose_worker(worker, math.max(LEAST, left))
    count, left, more = count + attempts, left - attempts, more or beyond
    for _, row in ipairs(gone) do failed[#failed + 1] = row end
  end
  return count, failed
end

local function timers()
  for _, ident in ipairs(until_now('timers')) do Admission.touch(ident) end
end

-- A reservation whose job was offered and not claimed in time is dropped (rule 7).
local function reservations()
  for _, member in ipairs(until_now('reserved')) do
    local id, ident = Text.parted(member)
    local job = Store.job(id)
    if job and job.holds and job.holds.keys[ident] then
      Ledger.let_go(ident, job)
      Admission.touch(ident)
    end
  end
end

local function overrides()
  for _, scope in ipairs(until_now('untils')) do
    if next(Book.changing) ~= nil then return end -- the others run out when this has been acted on
    local of = parse(call('HGET', base .. 'overrides', scope))
    Transitions.set_override(of[1], of[3] or nil, of[4] or nil, false)
  end
end

local function weights()
  for _, share in ipairs(until_now('weightends')) do Shares.set(share, false) end
end

-- Keys that were throttled and are open wide again.
local function gates()
  for ident in pairs(Book.all_gates()) do
    local rule = Book.rule(ident)
    if rule.gate and Admission.open_at(rule) <= now then Transitions.open_wide(ident) end
  end
end

-- Old jobs, also those that ended in this very step and are not to be kept at all.
local function retention()
  local old = until_now('ended')
  for _, job in ipairs(Store.dirty) do
    if Store.ENDED[job.state] and job.expires_at <= now then old[#old + 1] = job.id end
  end
  Store.load(old)
  for _, id in ipairs(old) do Store.remove(Store.job(id)) end
  return #old
end

-- Full buckets and empty windows.
local function forget_meters()
  for _, ident in ipairs(until_now('meters')) do Bucket.forget(ident) end
  for _, ident in ipairs(until_now('windows')) do
    local rule = Book.rule(ident)
    if not rule.exact or Window.load(ident, rule).spent <= 0 then
      Window.forget(ident)
    else
      Write.score('windows', ident, now + rule.period)
    end
  end
end

-- Numbers of keys that have been neither held nor waited for since an hour ago; the others are looked at again.
local function forget_numbers()
  for _, ident in ipairs(until_now('refreshed', Text.whole(now - IDLE))) do
    if Ledger.held(ident) > 0 or #Ledger.stored_queues(ident) > 0 then
      Write.score('refreshed', ident, now)
    else
      Book.change('forgotten', ident)
      Write.field('computed', ident, false)
      Write.score('computes', Book.by_name(ident), false)
      Write.score('refreshed', ident, false)
    end
  end
end

-- The virtual time of places without jobs of any share, and mean times of shares that have been idle for long.
local function forget_shares()
  Shares.forgetting = true
  for _, place in ipairs(until_now('quiet')) do
    if not Shares.has_come(place) then Write.field('virtual', place, false) end
    Write.score('quiet', place, false)
  end
  for _, field in ipairs(until_now('learnt', Text.whole(now - Shares.KEEP_MEANS))) do
    local queue, share = Text.parted(field)
    local busy = #Shares.places(share, queue) > 0
    if not busy then Write.field('means', field, false) end
    Write.score('learnt', field, busy and now)
  end
end

local function verb()
  left, more = MOST, false
  too_late()
  local due = arrivals()
  local gone, failed = lost()
  timers()
  reservations()
  local changing = Transitions.go_on()
  overrides()
  weights()
  gates()
  local expired = retention()
  forget_meters()
  forget_numbers()
  forget_shares()
  History.forget(until_now('minutes', Text.whole(now - History.KEPT)))
  local offered = Admission.offer()
  Store.indexing = Store.unindexed >= 0 and INDEXED or nil
  more = more or Store.indexing ~= nil or changing or next(Book.changing) ~= nil
  Transaction.finish()
  local next_due = Transaction.next_due()
  return {due, gone, offered, expired, more, next_due, now, failed}
end
