-- The step: one script call's view of a partition. Part of every script.
--
-- Redis does not undo a script that fails half-way. So nothing is written while a step decides: changes are kept in
-- tables of this script, reads look through them, and `Store.write` puts all of it down at the end, when nothing can
-- fail any more (Redis refuses a script for want of memory, rights or replicas at its first write, never later).
--
-- key 1      the partition's `meta` key: the rest of its keys share its beginning, and so its hash slot
-- argument 1 header (msgpack map): now, epoch, version, settings     argument 2  the verb's input (msgpack)
-- arguments 3 and on: jobs as Python packed them; scripts keep them as they are
--
-- The keys of a partition, with what each costs, are listed in catalogue.py.
--
-- What costs time here, dearest first: a call of the server, a number turned into text (for an argument or by `..`), a
-- new table. Hence commands with many members, numbers formatted once, and one table per job.

-- Where the server has functions (Redis 7, Valkey) all of this is loaded once, and `Transaction.reset` makes it forget the
-- last call. Elsewhere it is made anew for each call, and whatever a function uses from outside of it costs a little
-- each time: hence few names at this level, and tables of functions under them.

local call, pack, parse, format, sub, base, header, settings, now, now_text, arguments, turn
local Text, Lines, Write = {heads = {}, heads_known = 0}, {}, {}
local Store = {ENDED = {succeeded = true, failed = true, cancelled = true}, needs = {}, needs_known = 0}
local Ledger = {holdings = {}, holdings_known = 0}
local Rates, Book, Admission, Lifecycle, Blame, Transitions, Reading, Transaction = {}, {}, {}, {}, {}, {}, {}, {}
local History, Full, Shares = {}, {}, {}

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
