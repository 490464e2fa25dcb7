-- find: jobs that match, newest first, a slice at a time.
-- input {states (a set) or false, queue, task, tenant, waiting_on, unique, before (seq) or false, after (id), how many}
-- answers {number found, seq to go on before or false}, and the jobs' fields, raw (none if `how many` is 0: a count).
-- Cost: at most 1000 jobs are looked at.
local LOOKS = 1000

local function matches(job, f)
  return (not f[1] or f[1][job.life.state]) and (not f[2] or f[2] == job.queue) and (not f[3] or f[3] == job.task)
    and (f[4] == false or f[4] == job.tenant) and (not f[5] or f[5] == job.life.waiting_on)
    and (not f[6] or f[6] == job.unique)
end

local function verb(given, raw)
  local before, most = given[7], given[9]
  if not before and given[8] then before = tonumber(call('ZSCORE', base .. 'jobs', given[8])) end
  local top = before and '(' .. Text.whole(before) or '+inf'
  local ids = call('ZREVRANGEBYSCORE', base .. 'jobs', top, '-inf', 'LIMIT', 0, LOOKS)
  local found, last = 0, false
  for _, id in ipairs(ids) do
    local job = Store.job(id)
    last = job.seq
    if matches(job, given) then
      found = found + 1
      if most > 0 then
        local f = call('HMGET', base .. 'job:' .. id, 'spec', 'need', 'life', 'result', 'progress')
        raw[found] = {id, f[1], f[2], f[3], false, f[4], f[5]}
        if found == most then return {found, false} end
      end
    end
  end
  return {found, #ids == LOOKS and last}
end
