-- History: what workers did, a hash per minute, forgotten after a day. history.py, in Lua. Part of every script.
--
-- A field is a queue and a task, its value {started, succeeded, failed, retried, cancelled, waited, longest, ran}. A
-- minute tells so many pairs apart; what is beyond counts in the field of two empty names.

History.MINUTE, History.KEPT, History.MOST, History.LONGEST = 60000000, 1441 * 60000000, 200, 7
History.OTHERS = Text.join('', '')

function History.minute(at)
  return Text.whole(at - math.fmod(at, History.MINUTE))
end

function History.together(sum, row)
  for place = 1, 8 do
    if place == History.LONGEST then
      sum[place] = math.max(sum[place], row[place])
    else
      sum[place] = sum[place] + row[place]
    end
  end
end

-- What a minute has of the fields of these rows and of others, field → numbers, and how many fields it has.
function History.of_minute(name, rows)
  local known, fields, seen = {}, {History.OTHERS}, {[History.OTHERS] = true}
  for _, row in ipairs(rows) do
    if not seen[row[1]] then seen[row[1]], fields[#fields + 1] = true, row[1] end
  end
  for first = 1, #fields, 1000 do
    for i, text in ipairs(call('HMGET', base .. name, unpack(fields, first, math.min(first + 999, #fields)))) do
      known[fields[first + i - 1]] = text and parse(text) or nil
    end
  end
  return known, call('HLEN', base .. name)
end

-- Rows of one minute: {field, numbers} each.
function History.add_to_minute(minute, rows)
  local name = 'did:' .. minute
  local known, count = History.of_minute(name, rows)
  for _, row in ipairs(rows) do
    local field, numbers = row[1], row[2]
    if not known[field] and count >= History.MOST then field = History.OTHERS end
    if known[field] then
      History.together(known[field], numbers)
    else
      known[field], count = numbers, count + 1
    end
    Write.field(name, field, true)
  end
  local fields = Write.by_field[name]
  for field in pairs(fields) do fields[field] = pack(known[field]) end
  Write.score('minutes', minute, tonumber(minute))
end

-- What a worker did: {at, queue, task, {numbers}} each. Cost: these.
function History.add(done)
  local minutes = {}
  for _, row in ipairs(done) do
    local rows = Write.of(minutes, History.minute(row[1]))
    rows[#rows + 1] = {Text.join(row[2], row[3]), row[4]}
  end
  for minute, rows in pairs(minutes) do History.add_to_minute(minute, rows) end
end

-- Minutes of more than a day ago are gone.
function History.forget(minutes)
  for _, minute in ipairs(minutes) do
    Write.score('minutes', minute, false)
    Store.drop('did:' .. minute)
  end
end
