-- New jobs: read, checked, stored. Part of every script.

-- New jobs as Python packs them: {ids, the number of each one's way, ways}. A way is what many jobs have in common:
-- {delay, at, on_conflict, the number of the argument with its need}, and where any is there {start_within, start_by,
-- at_most, numbers that it brings: {ident, number} each}. Specs are the arguments from 3 on; a caller
-- that leaves jobs out says which argument each has.
function Transitions.ways(packed)
  local ways = {}
  for i, way in ipairs(packed[3]) do
    ways[i] = {
      need = Store.need(arguments[way[4]]), due = way[2] or now + way[1], delay = way[1], on_conflict = way[3],
      start_by = false,
    }
    if way[5] then Transitions.bring_more(ways[i], way[5]) end
  end
  return ways
end

function Transitions.bring_more(way, more)
  way.within, way.by, way.at_most, way.brings = more[1] or false, more[2] or false, more[3] or false, more[4] or false
  way.start_by = Transitions.start_by(way, now)
end

-- Until when a job that is enqueued at some time must have started, if ever.
function Transitions.start_by(way, enqueued_at)
  if way.by then return way.by end
  return way.within and enqueued_at + way.within or false
end

-- Refuse ids that are taken and uses of undeclared limits.
function Transitions.check_new(ids, numbers, ways)
  local taken, keys, start, wrong = {}, {}, base .. 'job:', false
  for i = 1, #ids do
    local id = ids[i]
    wrong = wrong or taken[id]
    taken[id], keys[i] = true, start .. id
  end
  for first = 1, #keys, 2000 do
    wrong = wrong or call('EXISTS', unpack(keys, first, math.min(first + 1999, #keys))) > 0
  end
  for _, way in ipairs(ways) do wrong = wrong or Book.wrong_use(way.need.uses) end
  if wrong then Transitions.say_what_is_wrong(ids, numbers, ways) end
  return keys
end

function Transitions.say_what_is_wrong(ids, numbers, ways)
  local taken = {}
  for i, id in ipairs(ids) do
    if taken[id] or call('EXISTS', base .. 'job:' .. id) == 1 then Store.refuse('exists', id) end
    local wrong = Book.wrong_use(ways[numbers[i]].need.uses)
    if wrong then Store.refuse(unpack(wrong)) end
    taken[id] = true
  end
end

-- A way of jobs that nothing holds up: due, without limits, caps or a unique key. They are ready, and all that tells
-- one record from the next is its arrival, and the tag if they have a share; so there is a pattern for them, cut where
-- these stand.
function Transitions.plain(way)
  local need = way.need
  if need.unique or way.due > now or #Ledger.uses(way) > 0 then return false end
  if way.start_by or way.brings or Store.stands_apart(need) and need.bounded then return false end
  local job = Store.table_for('', need)
  Store.newborn(job, 'ready', now, way.due)
  if need.share then job.tag = 1 end -- any, so that there is a place for it
  local text = Store.folded(job)
  local plain = {
    before = sub(text, 1, Store.SEQ_AT - 1), behind = sub(text, Store.SEQ_AT + 8),
    line = Lines.plain(Lines.ready(need.queue)), head = Store.head(need.priority, 0, way.due), queue = need.queue,
    share = false,
  }
  if need.share then Transitions.plain_of_share(plain, need) end
  return plain
end

function Transitions.plain_of_share(plain, need)
  local tag_at = #plain.behind - Store.TAG_TO_END
  plain.share, plain.place, plain.mark, plain.lasts = need.share, need.place, need.share_head, Shares.lasts_at(need.place)
  plain.virtual, plain.step = Shares.virtual_time(need.place), Shares.step(need)
  plain.need, plain.apart = need, Lines.plain(Lines.place(need.place))
  plain.between, plain.behind = sub(plain.behind, 1, tag_at), sub(plain.behind, tag_at + 9)
  plain.priority, plain.due = sub(plain.head, 1, 2), sub(plain.head, 19, 34)
end

function Transitions.add_plain(plain, id, key, spec)
  local seq, line, size, head, record = Store.next_seq(), plain.line, #plain.line, plain.head, plain.before
  local arrival, records = format('%012d', seq), Write.records
  local last = #records
  if plain.share then
    local tag = Shares.next_tag(plain.virtual, plain.lasts[plain.share] or Shares.last_tag(plain.need), plain.step)
    plain.lasts[plain.share] = tag
    head = plain.priority .. format('%016d', tag) .. plain.due
    record = record .. struct.pack('>d', seq) .. plain.between .. struct.pack('>d', tag) .. plain.behind
    local apart = plain.apart
    apart[#apart + 2], apart[#apart + 1] = plain.mark .. head .. arrival .. id, Lines.SCORE
    Shares.count(plain.place, 1)
  else
    record = record .. struct.pack('>d', seq) .. plain.behind
  end
  records[last + 1], records[last + 2] = key, record
  records[last + 3], records[last + 4] = base .. 'spec:' .. id, spec
  line[size + 1], line[size + 2] = Lines.SCORE, head .. arrival .. id
  Write.put('jobs', arrival, id)
  Write.moved(false, 'ready', plain.queue, seq)
end

-- Store new jobs, all or none; answers the state of each, and {place, id} of those that were there already.
-- `entering`: they can be refused for a full backlog; what time brings has no caller to be told.
function Transitions.enqueue(packed, entering)
  local ids, numbers, ways, places = packed[1], packed[2], Transitions.ways(packed), packed[4]
  local keys = Transitions.check_new(ids, numbers, ways)
  local states, there = {}, {}
  for _, way in ipairs(ways) do way.plain = Transitions.plain(way) end
  for i = 1, #ids do
    local id, way, spec = ids[i], ways[numbers[i]], arguments[places and places[i] or 2 + i]
    local rival = way.need.unique and Transitions.find_rival(way, spec)
    if way.plain then
      Transitions.add_plain(way.plain, id, keys[i], spec)
      states[i], Store.readied[way.plain.queue] = 'ready', true
    elseif rival then
      states[i], there[#there + 1] = rival.state, {i, rival.id}
    else
      local job = Store.add(id, spec, way.need, now, way.due, way.start_by)
      Transitions.bring(way.brings)
      Transitions.come(job, entering)
      states[i] = job.state
    end
  end
  return {states, there}
end
