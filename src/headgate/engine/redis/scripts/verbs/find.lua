-- find: jobs that match, newest first, a slice at a time.
-- input {states (a set) or false, queue, task, tenant, waiting_on, unique, error, ended_since, ended_until, before (seq)
-- or false, after (id), how many}
-- answers {number found, seq to go on before or false}, and the jobs' fields, raw (none if `how many` is 0: a count).
-- Cost: at most 150 jobs are looked at.
local LOOKS = 150

-- A key's text, of any tenant, or the name of a limit.
local function waits_on(job, text)
  if not job.waiting_on then return false end
  local key = Book.key(job.waiting_on)
  return text == key.name or (key.value and text == key.name .. '=' .. key.value)
end

local function has_error(job, text)
  return job.error and string.find(string.match(job.error, '^[^\n]*'), text, 1, true) ~= nil
end

local function ended_within(job, since, till)
  if not since and not till then return true end
  return Store.ENDED[job.state] and (not since or job.ended_at >= since) and (not till or job.ended_at < till)
end

local function matches(job, f)
  local need = job.need
  return (not f[1] or f[1][job.state]) and (not f[2] or f[2] == need.queue) and (not f[3] or f[3] == need.task)
    and (f[4] == false or f[4] == need.tenant) and (not f[5] or waits_on(job, f[5]))
    and (not f[6] or f[6] == need.unique) and (not f[7] or has_error(job, f[7])) and ended_within(job, f[8], f[9])
end

local function verb(given, raw)
  local before, after, most = given[10], given[11], given[12]
  if not before and after then before = tonumber(call('ZSCORE', base .. 'jobs', after)) end
  local top = before and '(' .. Text.whole(before) or '+inf'
  local ids = call('ZREVRANGEBYSCORE', base .. 'jobs', top, '-inf', 'LIMIT', 0, LOOKS)
  local found, last = 0, false
  Store.load(ids)
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    last = job.seq
    if matches(job, given) then
      found = found + 1
      if most > 0 then
        raw[found] = Reading.fields(id)
        if found == most then return {found, false} end
      end
    end
  end
  return {found, #ids == LOOKS and last}
end
