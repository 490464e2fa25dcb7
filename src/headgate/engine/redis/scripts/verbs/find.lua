-- find: jobs that match, newest first, a slice at a time.
-- input {states (a set) or false, queue, task, tenant, waiting_on, unique, error, ended_since, ended_until, before (seq)
-- or false, after (id), how many}
-- answers {number found, seq to go on before or false, the id of the job at or behind it or false}, and what is kept of
-- the jobs but their past, raw (none if `how many` is 0: a count). Cost: about 500 jobs are looked at, 200 of them closely, in blocks of arrivals that have jobs of
-- the wanted states; 200 blocks without them are passed over. Running ones cost what runs.
local LOOKS, CLOSELY, BLOCKS = 500, 200, 200
local UNFINISHED, LISTED = {'scheduled', 'ready', 'waiting', 'running'}, {'failed', 'cancelled'}

local function is_wanted(f, state)
  return not f[1] or f[1][state]
end

-- Those of some states that are wanted, and the others.
local function parted(f, states)
  local wanted, others = {}, {}
  for _, state in ipairs(states) do
    local into = is_wanted(f, state) and wanted or others
    into[#into + 1] = state
  end
  return wanted, others
end

-- A key's text, of any tenant, or the name of a limit.
local function waits_on(job, text)
  if not job.waiting_on then return false end
  local key = Book.key(job.waiting_on)
  return text == key.name or (key.value and text == key.name .. '=' .. key.value)
end

local function has_error(job, text)
  return job.error and string.find(string.match(job.error, '^[^\n]*'), text, 1, true) ~= nil
end

local function ended_within(state, ended_at, f)
  if not f[8] and not f[9] then return true end
  return Store.ENDED[state] and (not f[8] or ended_at >= f[8]) and (not f[9] or ended_at < f[9])
end

local function matches(job, f)
  local need = job.need
  return (not f[1] or f[1][job.state]) and (not f[2] or f[2] == need.queue) and (not f[3] or f[3] == need.task)
    and (f[4] == false or f[4] == need.tenant) and (not f[5] or waits_on(job, f[5]))
    and (not f[6] or f[6] == need.unique) and (not f[7] or has_error(job, f[7])) and ended_within(job.state, job.ended_at, f)
end

-- Texts that a record must contain if its job matches, as far as they tell anything: most jobs are passed over by them.
local function contained(f)
  local texts = {}
  for _, text in ipairs({f[2] or '', f[3] or '', f[4] or '', f[5] or '', f[6] or '', f[7] or ''}) do
    if text ~= '' then texts[#texts + 1] = text end
  end
  return texts, f[2] or f[3] or f[4] or f[5] or f[6] or f[7]
end

-- What can be told from a record without reading all of it.
local function may_match(text, f, texts)
  local state = Store.STATES[string.byte(text, 1) % Store.MORE]
  if not state then error('its state') end
  if f[1] and not f[1][state] then return false end
  if (f[8] or f[9]) and not ended_within(state, (struct.unpack('>d', text, Store.ENDED_AT)), f) then return false end
  for i = 1, #texts do
    if not string.find(text, texts[i], 1, true) then return false end
  end
  return true
end

-- ── which jobs to look at: {id, seq, …}, newest first ─────────────────────────────────────────────────────────────────

-- Jobs of an index before an arrival and behind another.
local function slice(name, before, behind, most)
  local top, bottom = before and '(' .. Text.whole(before) or '+inf', behind and '(' .. Text.whole(behind) or '-inf'
  return call('ZREVRANGEBYSCORE', base .. name, top, bottom, 'WITHSCORES', 'LIMIT', '0', Text.whole(most))
end

-- From the lists of ended states: those that are the newest of all.
local function listed(names, before)
  local found, flat = {}, {}
  for _, name in ipairs(names) do
    local rows = slice(name, before, Store.unindexed, LOOKS)
    for i = 1, #rows, 2 do found[#found + 1] = {rows[i], tonumber(rows[i + 1])} end
  end
  table.sort(found, function(a, b) return a[2] > b[2] end)
  for i = 1, math.min(#found, LOOKS) do flat[2 * i - 1], flat[2 * i] = found[i][1], found[i][2] end
  return flat, #found >= LOOKS and flat[#flat]
end

local function add_block(rows, block, before)
  local till = math.min((block + 1) * Write.BLOCK, before)
  for _, value in ipairs(slice('jobs', till, math.max(block * Write.BLOCK - 1, Store.unindexed), Write.BLOCK)) do
    rows[#rows + 1] = value
  end
end

-- Blocks with running jobs, as a set. Cost: what runs.
local function running(before)
  local blocks = {}
  for _, worker in ipairs(call('HKEYS', base .. 'workers')) do
    local rows = slice('run:' .. worker, before, Store.unindexed, -1)
    for i = 2, #rows, 2 do blocks[math.floor(rows[i] / Write.BLOCK)] = true end
  end
  return blocks
end

-- Blocks that are known to have jobs of these states.
local function counted(states, before)
  local seen, blocks, rows = {}, {}, {}
  for _, state in ipairs(states) do
    if state == 'running' then
      for block in pairs(running(before)) do seen[block] = true end
    else
      for _, field in ipairs(call('HKEYS', base .. 'blocks:' .. state)) do seen[tonumber(field)] = true end
    end
  end
  for block in pairs(seen) do
    if block * Write.BLOCK < before then blocks[#blocks + 1] = block end
  end
  table.sort(blocks, function(a, b) return a > b end)
  for i, block in ipairs(blocks) do
    if #rows >= 2 * LOOKS then return rows, block * Write.BLOCK + Write.BLOCK end
    add_block(rows, block, before)
  end
  return rows, false
end

-- Whether a block has other jobs than those of some unfinished states and of some lists.
local function has_others(block, states, lists)
  local from, till = Text.whole(block * Write.BLOCK), '(' .. Text.whole((block + 1) * Write.BLOCK)
  local left = call('ZCOUNT', base .. 'jobs', from, till)
  for _, state in ipairs(states) do left = left - (call('HGET', base .. 'blocks:' .. state, Text.whole(block)) or 0) end
  for _, name in ipairs(lists) do left = left - call('ZCOUNT', base .. name, from, till) end
  return left > 0
end

-- Blocks that have other jobs than those of some states.
local function others(states, lists, before)
  local rows, passed = {}, 0
  while true do
    local next = slice('jobs', before, Store.unindexed, 1)[2]
    if not next then return rows, false end
    local block = math.floor(next / Write.BLOCK)
    if has_others(block, states, lists) then add_block(rows, block, before) else passed = passed + 1 end
    before = block * Write.BLOCK
    if #rows >= 2 * LOOKS or passed >= BLOCKS then return rows, before end
  end
end

-- Jobs before an arrival among which the next that match are; and where to go on, false at the end.
local function of_states(f, before)
  local states, other_states = parted(f, UNFINISHED)
  local lists, other_lists = parted(f, LISTED)
  if f[5] then return counted((parted(f, {'waiting'})), before) end
  if is_wanted(f, 'succeeded') or #states > 0 and #lists > 0 then return others(other_states, other_lists, before) end
  if #lists > 0 then return listed(lists, before) end
  return counted(states, before)
end

-- The same, also of older data that is not listed by state.
local function candidates(f, before)
  local older = Store.unindexed >= 0 and Store.unindexed + 1
  if not f[1] and not f[5] or older and before <= older then
    local rows = slice('jobs', before, false, LOOKS)
    return rows, #rows == 2 * LOOKS and tonumber(rows[2 * LOOKS])
  end
  local rows, last = of_states(f, before)
  return rows, last or older
end

-- Records of jobs, as {id, seq, …} names them; false for those that are not there.
local function records_of(rows)
  local keys, start = {}, base .. 'job:'
  for i = 1, #rows, 2 do keys[#keys + 1] = start .. rows[i] end
  return #keys > 0 and call('MGET', unpack(keys)) or keys
end

-- Answers how many match, and the arrival of the last that was looked at if others were not.
local function look(rows, f, most, raw)
  local found, closely, records, texts, deep = 0, 0, records_of(rows), contained(f)
  for i, text in ipairs(records) do
    local id, seq = rows[2 * i - 1], tonumber(rows[2 * i])
    local read, fits = pcall(may_match, text, f, texts)
    if text and (not read or fits and deep) then
      fits, closely = matches(Store.unfold(id, text), f), closely + 1
    end
    if text and fits then
      found = found + 1
      if most > 0 then raw[found] = {id, text, call('GET', base .. 'spec:' .. id), false} end
    end
    if (most > 0 and found == most) or closely == CLOSELY then return found, seq end
  end
  return found, nil
end

-- The jobs that wait on one key of no tenant; nil if there may be others, or too many.
local function waiters_of(text, before)
  local name, value = string.match(text, '^([^=]*)=(.*)$')
  if not value or not Reading.are_alike({'waited'}, name) then return nil end
  local ident, found, flat = Book.ident(name, value, nil), {}, {}
  if Reading.waiting(ident) > LOOKS then return nil end
  for _, queue in ipairs(Ledger.stored_queues(ident)) do
    for _, member in ipairs(call('ZRANGE', base .. 'wait:' .. Text.join(queue, ident), '0', '-1')) do
      local seq = tonumber(sub(member, 35, 46))
      if seq < before then found[#found + 1] = {sub(member, 47), seq} end
    end
  end
  table.sort(found, function(a, b) return a[2] > b[2] end)
  for i, row in ipairs(found) do flat[2 * i - 1], flat[2 * i] = row[1], row[2] end
  return flat
end

local function verb(given, raw)
  local before = given[10]
  if not before and given[11] then before = tonumber(call('ZSCORE', base .. 'jobs', given[11])) end
  before = before or (tonumber(Store.meta[3]) or 0) + 1
  local rows, last = given[5] and waiters_of(given[5], before), false
  if not rows then rows, last = candidates(given, before) end
  local found, stopped = look(rows, given, given[12], raw)
  local rest = stopped or last
  return {found, rest, rest and call('ZRANGEBYSCORE', base .. 'jobs', Text.whole(rest), '+inf', 'LIMIT', '0', '1')[1] or false}
end
