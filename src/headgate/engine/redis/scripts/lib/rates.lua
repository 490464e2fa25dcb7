-- Rate arithmetic in whole microseconds: rates.py, in Lua. Part of every script.
--
-- Lua's numbers are doubles, exact up to 2^53. Times stay below that; products of an interval and a burst are kept
-- below it when a limit is declared (rates.py), and divisions go through fmod, which is exact.

function Rates.ceil_div(a, b)
  local rest = math.fmod(a, b)
  return (a - rest) / b + (rest > 0 and 1 or 0)
end

local Bucket, Window = {}, {}
Rates.Bucket, Rates.Window = Bucket, Window

Rates.CLOSING_STEPS = 20 -- in how many parts a window opens again after it was closed
Rates.LATEST = 8e15 -- number_range.py

-- GCRA: `full_at` is when the bucket will hold `burst` tokens again. Of an estimated limit's it is kept when the present
-- busy period began, and how much time corrections gave back in it.
function Bucket.load(ident, pace)
  local meter = {kind = Bucket, ident = ident, full_at = tonumber(call('ZSCORE', base .. 'meters', ident)) or 0}
  local period = pace.estimated and call('HGET', base .. 'periods', ident)
  meter.since, meter.refunded = 0, 0
  if period then
    local row = parse(period)
    meter.since, meter.refunded = row[1], row[2]
  end
  return meter
end

function Bucket.free(meter, pace)
  return math.max(pace.burst - Rates.ceil_div(math.max(meter.full_at - now, 0), pace.interval), 0)
end

function Bucket.debt(meter, pace)
  return math.max(Rates.ceil_div(math.max(meter.full_at - now, 0), pace.interval) - pace.burst, 0)
end

function Bucket.when(meter, pace, units)
  if units > pace.most then return nil end
  return math.max(now, meter.full_at - (pace.burst - units) * pace.interval)
end

function Bucket.spend(meter, pace, units)
  if meter.full_at <= now then meter.full_at, meter.since, meter.refunded = now, now, 0 end
  meter.full_at = meter.full_at + units * pace.interval
  Bucket.store(meter, pace)
end

function Bucket.store(meter, pace)
  meter.full_at = math.min(meter.full_at, Rates.LATEST)
  Write.score('meters', meter.ident, meter.full_at)
  if pace.estimated then Write.field('periods', meter.ident, pack({meter.since, meter.refunded})) end
  if call('EXISTS', base .. 'starts:' .. meter.ident) == 1 then Window.forget(meter.ident) end
end

function Bucket.mark(meter)
  return meter.full_at + meter.refunded
end

-- `spent` is {units, at, mark}.
function Bucket.correct(meter, pace, spent, units)
  local difference = (units - spent[1]) * pace.interval
  if difference > 0 then
    meter.full_at = math.max(meter.full_at, now) + difference
  elseif meter.since <= spent[2] then
    local back = math.max(math.min(-difference, spent[3] - meter.refunded - now, meter.full_at - now), 0)
    meter.full_at, meter.refunded = meter.full_at - back, meter.refunded + back
  end
  Bucket.store(meter, pace)
end

function Bucket.close(meter, pace, till)
  local empty = till + (pace.burst - 1) * pace.interval
  if empty > meter.full_at then meter.full_at, meter.since, meter.refunded = empty, now + 1, 0 end
  Bucket.store(meter, pace)
end

function Bucket.forget(ident)
  Write.score('meters', ident, false)
  Write.field('periods', ident, false)
end

-- Exact sliding window: the starts of the last period, with their sum beside them so that it is never added up.
function Window.load(ident, pace)
  local key = base .. 'starts:' .. ident
  local spent = tonumber(call('HGET', base .. 'spent', ident)) or 0
  for _, start in ipairs(call('ZRANGEBYSCORE', key, '-inf', now - pace.period)) do
    spent = spent - tonumber(string.match(start, '^(%d+):'))
  end
  return {
    kind = Window, ident = ident, key = key, spent = spent, since = now - pace.period, added = {}, corrected = {},
    closed = false,
  }
end

function Window.free(meter, pace)
  return math.max((pace.limit or 0) - meter.spent, 0)
end

function Window.debt(meter, pace)
  return math.max(meter.spent - pace.most, 0)
end

function Window.mark()
  return now
end

-- The next starts as stored, from a place on: {name, score …}.
function Window.stored(meter, from)
  if meter.closed then return Lines.NONE end
  local since = '(' .. Text.whole(meter.since)
  return call('ZRANGEBYSCORE', meter.key, since, '+inf', 'WITHSCORES', 'LIMIT', from, 50)
end

-- Looks at as many starts as it takes to free the tokens: those stored, and between them those of this step.
function Window.when(meter, pace, units)
  if units > pace.most then return nil end
  local missing, at, from, place, added = meter.spent + units - pace.most, now, 0, 1, meter.added
  local function free(count, started)
    if missing > 0 and count > 0 then missing, at = missing - count, started + pace.period end
  end
  while missing > 0 do
    local slice = Window.stored(meter, from)
    for i = 1, #slice, 2 do
      local started = tonumber(slice[i + 1])
      while added[place] and added[place].at < started do
        free(added[place].units, added[place].at)
        place = place + 1
      end
      free(Window.units(meter, slice[i]), started)
    end
    if #slice < 100 then break end
    from = from + 50
  end
  while missing > 0 and added[place] do
    free(added[place].units, added[place].at)
    place = place + 1
  end
  return at
end

-- What stands for a start: its units, the job, and how many attempts that had when it started.
function Window.name(units, job)
  return format('%d:%d:%d', units, job.seq, job.state == 'running' and job.attempt - 1 or job.attempt)
end

function Window.add(meter, pace, units, at, name)
  meter.spent = meter.spent + units
  local added, place = meter.added, #meter.added + 1
  while place > 1 and added[place - 1].at > at do place = place - 1 end
  table.insert(added, place, {units = units, at = at, name = name})
  Window.changed(meter, pace)
end

function Window.changed(meter, pace)
  Window.spent[meter.ident] = meter
  Write.score('windows', meter.ident, now + pace.period)
  Write.score('meters', meter.ident, false)
  if pace.estimated then Write.field('periods', meter.ident, false) end
end

function Window.spend(meter, pace, units, job)
  Window.add(meter, pace, units, now, Window.name(units, job))
end

-- The stored start that a job has left, as this step has corrected it, if the window knows it still.
function Window.start_of(meter, spent, job)
  local of = job.seq .. ':' .. job.attempt
  for name, start in pairs(meter.corrected) do
    if start.of == of then return start, name end
  end
  local name = Window.name(spent[1], job)
  local at = not meter.closed and tonumber(call('ZSCORE', meter.key, name) or nil)
  if not at or at <= meter.since then return nil end
  local start = {of = of, units = spent[1], at = at, name = name}
  meter.corrected[name] = start
  return start
end

-- Where the start is not known any more, since the window was closed, a debt counts nevertheless.
function Window.correct(meter, pace, spent, units, job)
  local start = Window.start_of(meter, spent, job)
  if start then
    meter.spent = meter.spent + units - start.units
    start.units, start.name = units, Window.name(units, job)
    Window.changed(meter, pace)
  elseif spent[2] > meter.since and units > spent[1] then
    local debt = units - spent[1]
    Window.add(meter, pace, debt, spent[2], format('%d:d%d:%d:%d', debt, units, job.seq, job.attempt))
  end
end

-- How many tokens a stored start has, as this step has corrected it.
function Window.units(meter, name)
  local corrected = meter.corrected[name]
  return corrected and corrected.units or tonumber(string.match(name, '^(%d+):'))
end

-- All starts that count, as {at, side, units}; side 0.
function Window.starts(meter)
  local found, slice = {}, nil
  repeat
    slice = Window.stored(meter, #found)
    for i = 1, #slice, 2 do
      table.insert(found, {tonumber(slice[i + 1]), 0, Window.units(meter, slice[i])})
    end
  until #slice < 100
  for _, start in ipairs(meter.added) do table.insert(found, {start.at, 0, start.units}) end
  return found
end

-- Of what was spent, and of what a window has spent that opens in parts, at every time the larger: what leaves of both
-- leaves once. A start leaves a microsecond later, so that a correction does not take what is left of it for the start.
function Window.close(meter, pace, till)
  local parts = math.min(Rates.CLOSING_STEPS, pace.limit or 0)
  if parts < 1 then return end
  local entries, left = Window.starts(meter), {[0] = 0, [1] = 0}
  for part = 0, parts - 1 do
    local units = math.floor(pace.most * (part + 1) / parts) - math.floor(pace.most * part / parts)
    table.insert(entries, {till - pace.period + math.floor(pace.period * part / parts), 1, units})
  end
  table.sort(entries, Window.leaves_before)
  for _, entry in ipairs(entries) do left[entry[2]] = left[entry[2]] + entry[3] end
  local most, last = math.max(left[0], left[1]), till
  meter.closed, meter.spent, meter.added, meter.corrected = true, 0, {}, {}
  for place, entry in ipairs(entries) do
    left[entry[2]] = left[entry[2]] - entry[3]
    local units = most - math.max(left[0], left[1])
    if units > 0 then
      last = entry[1] + 1 - entry[2]
      Window.add(meter, pace, units, last, format('%d:c%d:%d', units, place, till))
      most = most - units
    end
  end
  Write.score('windows', meter.ident, last + pace.period)
end

function Window.leaves_before(one, other)
  for i = 1, 3 do
    if one[i] ~= other[i] then return one[i] < other[i] end
  end
  return false
end

function Window.forget(ident)
  Window.spent[ident] = nil
  Write.field('spent', ident, false)
  Write.score('windows', ident, false)
  Store.drop('starts:' .. ident)
end

function Window.write()
  for ident, meter in pairs(Window.spent) do
    call('ZREMRANGEBYSCORE', meter.key, '-inf', meter.closed and '+inf' or format('%d', meter.since))
    for name, start in pairs(meter.corrected) do
      if start.name ~= name then
        call('ZREM', meter.key, name)
        if start.units > 0 then call('ZADD', meter.key, format('%d', start.at), start.name) end
      end
    end
    for _, start in ipairs(meter.added) do call('ZADD', meter.key, format('%d', start.at), start.name) end
    call('HSET', base .. 'spent', ident, format('%d', meter.spent))
  end
end
