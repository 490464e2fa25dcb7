-- report_lost: the processes of these workers are gone: as if their leases had lapsed now.
-- input {worker …}   answers {attempts, {{id, task, error} …} of those that failed by it}. Cost: what they ran.
local function verb(given)
  local attempts, failed = 0, {}
  for _, worker in ipairs(given) do
    if call('HEXISTS', base .. 'workers', worker) == 1 then
      local lost, gone = Transitions.lose_worker(worker)
      attempts = attempts + lost
      for _, row in ipairs(gone) do failed[#failed + 1] = row end
    end
  end
  return {attempts, failed}
end
