-- orphans: running jobs of workers that are not registered, or that do not list them; a slice of all jobs at a time.
-- input {before (seq) or false}   answers {{id …}, seq to go on before or false}. Cost: at most 500 jobs are looked at.
local LOOKS = 500

local function verb(given)
  local top = given[1] and '(' .. Text.whole(given[1]) or '+inf'
  local ids = call('ZREVRANGEBYSCORE', base .. 'jobs', top, '-inf', 'WITHSCORES', 'LIMIT', '0', Text.whole(LOOKS))
  local found, names, last = {}, {}, false
  for i = 1, #ids, 2 do names[#names + 1], last = ids[i], tonumber(ids[i + 1]) end
  Store.load(names)
  for _, id in ipairs(names) do
    local job = Store.job(id)
    if job and job.state == 'running' and Transitions.is_orphan(job) then found[#found + 1] = id end
  end
  return {found, #names == LOOKS and last}
end
