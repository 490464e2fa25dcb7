-- The step: one script call's view of a partition. Part of every script.
--
-- Redis does not undo a script that fails half-way. So nothing is written while a step decides: changes are kept in
-- tables of this script, reads look through them, and `Store.write` puts all of it down at the end, when nothing can
-- fail any more (Redis refuses a script for want of memory, rights or replicas at its first write, never later).
--
-- key 1      the partition's `meta` key: the rest of its keys share its beginning, and so its hash slot
-- argument 1 header (msgpack map): now, epoch, version, settings, fail     argument 2  the verb's input (msgpack)
-- arguments 3 and on: jobs as Python packed them; scripts keep them as they are
--
-- The keys of a partition, with what each costs, are listed in catalogue.py.
--
-- What costs time here, dearest first: a call of the server, a number turned into text (for an argument or by `..`), a
-- new table. Hence commands with many members, numbers formatted once, and one table per job.

-- Where the server has functions (Redis 7, Valkey) all of this is loaded once, and `Step.reset` makes it forget the
-- last call. Elsewhere it is made anew for each call, and whatever a function uses from outside of it costs a little
-- each time: hence few names at this level, and tables of functions under them.

local call, pack, parse, format, sub, base, header, settings, now, now_text, arguments, turn
local Text, Lines, Write = {heads = {}, heads_known = 0}, {}, {}
local Store = {ENDED = {succeeded = true, failed = true, cancelled = true}, needs = {}, needs_known = 0}
local Ledger = {holdings = {}, holdings_known = 0}
local Rates, Book, Admission, Lifecycle, Moves, Looking, Step = {}, {}, {}, {}, {}, {}, {}

-- Numbers of sixteen digits: joining them to a text with `..` would round them.
function Text.whole(number)
  return format('%d', number)
end

Text.numbers = {}

-- A number as text; small ones are asked for all the time.
function Text.number(number)
  local text = Text.numbers[number]
  if not text then
    text = format('%d', number)
    if number < 100 then Text.numbers[number] = text end
  end
  return text
end

-- Two texts as one from which both can be told, whatever characters they contain.
function Text.join(first, second)
  local head = Text.heads[first]
  if not head then
    head = #first .. ':' .. first
    Text.heads[first], Text.heads_known = head, Text.heads_known + 1
  end
  return head .. second
end

function Text.parted(text)
  local colon = string.find(text, ':', 1, true)
  local length = tonumber(sub(text, 1, colon - 1))
  return sub(text, colon + 1, colon + length), sub(text, colon + length + 1)
end

-- A refusal that the caller understands; nothing has been written yet.
function Store.refuse(...)
  error({refused = {...}})
end

-- Tests break a step here; see faults.py.
function Store.may_fail(place)
  if header.fail and header.fail[place] then
    error('broken on purpose: ' .. place)
  end
end

-- ── what is only written ──────────────────────────────────────────────────────────────────────────────────────────

-- What is kept under a name, made when it is first asked for.
function Write.of(tables, name)
  local found = tables[name]
  if not found then
    found = {}
    tables[name] = found
  end
  return found
end

-- A member of a sorted set by time; false takes it out.
function Write.score(name, member, score)
  Write.of(Write.by_score, name)[member] = score or false
end

-- A field of a hash; false deletes it.
function Write.field(name, field, value)
  Write.of(Write.by_field, name)[field] = value == nil and false or value
end

-- One command with as many arguments as Lua's stack takes at once, behind the key if there is one for all of them.
function Write.many(verb, key, list)
  for first = 1, #list, 2000 do
    local last = math.min(first + 1999, #list)
    if key then call(verb, key, unpack(list, first, last)) else call(verb, unpack(list, first, last)) end
  end
end

-- The same for the first so many of a list, behind a key.
function Write.some(verb, key, list, count)
  for first = 1, count, 2000 do call(verb, key, unpack(list, first, math.min(first + 1999, count))) end
end

function Write.scores(name, members)
  local gone, added = {}, {}
  for member, score in pairs(members) do
    if score then
      added[#added + 1], added[#added + 2] = format('%d', score), member
    else
      gone[#gone + 1] = member
    end
  end
  Write.many('ZREM', base .. name, gone)
  Write.many('ZADD', base .. name, added)
end

function Write.fields(name, fields)
  local gone, added = {}, {}
  for field, value in pairs(fields) do
    if value then added[#added + 1], added[#added + 2] = field, value else gone[#gone + 1] = field end
  end
  Write.many('HDEL', base .. name, gone)
  Write.many('HSET', base .. name, added)
end

-- So many jobs of a queue have come into a state.
function Write.count(state, queue, by)
  local counts = Write.of(Write.by_count, queue)
  counts[state] = (counts[state] or 0) + by
end

-- Also which queues have ready jobs, set aside or not.
function Write.counts()
  for queue, counts in pairs(Write.by_count) do
    for state, by in pairs(counts) do
      if by ~= 0 then
        local field = state .. ':' .. queue
        local number = call('HINCRBY', base .. 'counts', field, format('%d', by))
        if number == 0 then call('HDEL', base .. 'counts', field) end
        if state == 'ready' then
          if number == 0 then call('SREM', base .. 'queues', queue) end
          if number == by then call('SADD', base .. 'queues', queue) end
        end
      end
    end
  end
end

function Store.write()
  Write.jobs()
  Lines.write()
  for name, fields in pairs(Write.by_field) do Write.fields(name, fields) end
  for name, members in pairs(Write.by_score) do Write.scores(name, members) end
  Write.counts()
  if Store.seq then call('HSET', base .. 'meta', 'seq', format('%d', Store.seq)) end
end
