-- report_lost: the processes of these workers are gone: as if their leases had lapsed now.
-- input {worker …}   answers {attempts, {{id, task, error} …} of those that failed by it, whether attempts are left}.
-- Cost: at most 100 attempts; the first time, all that the worker runs is read.
local MOST = 100

local function verb(given)
  local attempts, failed, more = 0, {}, false
  for _, worker in ipairs(given) do
    if call('HEXISTS', base .. 'workers', worker) == 1 then
      if attempts >= MOST then return {attempts, failed, true} end
      local lost, gone, beyond = Transitions.lose_worker(worker, MOST - attempts)
      attempts, more = attempts + lost, more or beyond
      for _, row in ipairs(gone) do failed[#failed + 1] = row end
    end
  end
  return {attempts, failed, more}
end
