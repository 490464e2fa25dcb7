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

-- GCRA: `full_at` is when the bucket will hold `burst` tokens again.
function Bucket.load(ident)
  return {kind = Bucket, ident = ident, full_at = tonumber(call('ZSCORE', base .. 'meters', ident)) or 0}
end

function Bucket.free(meter, pace)
  return math.max(pace.burst - Rates.ceil_div(math.max(meter.full_at - now, 0), pace.interval), 0)
end

function Bucket.when(meter, pace, units)
  if units > pace.most then return nil end
  return math.max(now, meter.full_at - (pace.burst - units) * pace.interval)
end

function Bucket.spend(meter, pace, units)
  meter.full_at = math.max(meter.full_at, now) + units * pace.interval
  Write.score('meters', meter.ident, meter.full_at)
  if call('EXISTS', base .. 'starts:' .. meter.ident) == 1 then Window.forget(meter.ident) end
end

-- Exact sliding window: the starts of the last period, with their sum beside them so that it is never added up.
function Window.load(ident, pace)
  local key = base .. 'starts:' .. ident
  local spent = tonumber(call('HGET', base .. 'spent', ident)) or 0
  for _, start in ipairs(call('ZRANGEBYSCORE', key, '-inf', now - pace.period)) do
    spent = spent - tonumber(string.match(start, '^(%d+):'))
  end
  return {kind = Window, ident = ident, key = key, spent = spent, since = now - pace.period, added = {}}
end

function Window.free(meter, pace)
  return math.max((pace.limit or 0) - meter.spent, 0)
end

-- Looks at as many starts as it takes to free the tokens.
function Window.when(meter, pace, units)
  if units > pace.most then return nil end
  local missing, at = meter.spent + units - pace.most, now
  local from = 0
  while missing > 0 do
    local since = '(' .. Text.whole(meter.since)
    local slice = call('ZRANGEBYSCORE', meter.key, since, '+inf', 'WITHSCORES', 'LIMIT', from, 50)
    for i = 1, #slice, 2 do
      if missing <= 0 then break end
      missing = missing - tonumber(string.match(slice[i], '^(%d+):'))
      at = tonumber(slice[i + 1]) + pace.period
    end
    if #slice < 100 then break end
    from = from + 50
  end
  for _, start in ipairs(meter.added) do
    if missing <= 0 then break end
    missing, at = missing - start.units, now + pace.period
  end
  return at
end

function Window.spend(meter, pace, units, job)
  meter.spent = meter.spent + units
  meter.added[#meter.added + 1] = {units = units, name = format('%d:%d:%d', units, job.seq, job.attempt)}
  Window.spent[meter.ident] = meter
  Write.score('windows', meter.ident, now + pace.period)
  Write.score('meters', meter.ident, false)
end

function Window.forget(ident)
  Window.spent[ident] = nil
  Write.field('spent', ident, false)
  Write.score('windows', ident, false)
  Store.drop('starts:' .. ident)
end

function Window.write()
  for ident, meter in pairs(Window.spent) do
    call('ZREMRANGEBYSCORE', meter.key, '-inf', meter.since)
    for _, start in ipairs(meter.added) do call('ZADD', meter.key, now_text, start.name) end
    call('HSET', base .. 'spent', ident, format('%d', meter.spent))
  end
end
