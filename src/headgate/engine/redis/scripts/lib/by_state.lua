-- Jobs by state: how many there are, and where lists find them. Part of every script.
--
-- It is counted how many jobs of each state a queue has; and how many scheduled, ready and waiting ones, which change all
-- the time, a block of arrivals has: lists pass over blocks that have none. Failed and cancelled jobs stand in lists of
-- their own, running ones in those of their workers.

Write.BLOCK, Write.LISTED = 256, {failed = true, cancelled = true}
Write.IN_BLOCKS = {scheduled = true, ready = true, waiting = true}

-- Jobs of a queue that move alike and have arrived together, as nearly all that move together have, are counted at once.
Write.spell = {was = false, state = false, queue = '', from = 0, till = 0, count = 0}

function Write.in_block(state, block, by)
  if not Write.IN_BLOCKS[state] then return end
  local blocks = Write.of(Write.by_block, state)
  blocks[block] = (blocks[block] or 0) + by
end

function Write.end_spell()
  local spell = Write.spell
  local was, state, count = spell.was, spell.state, spell.count
  if count > 0 then
    local counts, block = Write.of(Write.by_count, spell.queue), spell.from / Write.BLOCK
    if was then counts[was] = (counts[was] or 0) - count end
    if state then counts[state] = (counts[state] or 0) + count end
    if spell.from > Store.unindexed then
      Write.in_block(was, block, -count)
      Write.in_block(state, block, count)
    end
  end
  spell.count, spell.till = 0, 0
end

-- A job of a queue has moved from one state to another.
function Write.moved(was, state, queue, seq)
  local spell = Write.spell
  if seq >= spell.till or seq < spell.from or state ~= spell.state or was ~= spell.was or queue ~= spell.queue then
    Write.end_spell()
    local from = seq - seq % Write.BLOCK
    spell.was, spell.state, spell.queue, spell.from, spell.till = was, state, queue, from, from + Write.BLOCK
  end
  spell.count = spell.count + 1
end

function Write.unlist(job, state)
  for name in pairs(Write.LISTED) do
    if name ~= state then Write.take(name, job.id) end
  end
end

function Write.blocks()
  for state, blocks in pairs(Write.by_block) do
    local key = base .. 'blocks:' .. state
    for block, by in pairs(blocks) do
      local field = Text.number(block)
      if by ~= 0 and call('HINCRBY', key, field, Text.number(by)) == 0 then call('HDEL', key, field) end
    end
  end
end

-- The next of the jobs of older data, newest first and in whole blocks, are put into lists and counted. They are as they
-- will be: all else has been written.
function Write.index_older(most)
  local rows = call(
    'ZREVRANGEBYSCORE', base .. 'jobs', Text.whole(Store.unindexed), '-inf', 'WITHSCORES', 'LIMIT', '0', Text.whole(most))
  local keys, added, left = {}, {failed = {}, cancelled = {}}, -1
  for i = 1, #rows, 2 do keys[#keys + 1] = base .. 'job:' .. rows[i] end
  if #keys == most then left = (math.floor(rows[#rows] / Write.BLOCK) + 1) * Write.BLOCK - 1 end
  Write.by_block = {}
  for i, text in ipairs(#keys > 0 and call('MGET', unpack(keys)) or keys) do
    local state, seq = text and Store.STATES[string.byte(text, 1) % Store.MORE], tonumber(rows[2 * i])
    if seq > left then
      Write.in_block(state, math.floor(seq / Write.BLOCK), 1)
      local list = added[state]
      if list then list[#list + 1], list[#list + 2] = rows[2 * i], rows[2 * i - 1] end
    end
  end
  for name, list in pairs(added) do Write.many('ZADD', base .. name, list) end
  Write.blocks()
  if left >= 0 then
    call('HSET', base .. 'meta', 'unindexed', Text.whole(left))
  else
    call('HDEL', base .. 'meta', 'unindexed')
  end
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
