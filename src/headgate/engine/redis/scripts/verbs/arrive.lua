-- arrive: due jobs that were stored as scheduled (store.lua) arrive.
-- input {id …}   answers {state or false …}: those that a sweep was faster with, or that are gone, stay as they are.
-- Cost: per job its keys, plus the offers of the keys it touches.
local function verb(given)
  local states = {}
  Store.load(given)
  for i, id in ipairs(given) do
    local job = Store.job(id)
    if job and job.state == 'scheduled' and job.due <= now then Transitions.come(job) end
    states[i] = job and job.state or false
  end
  return states
end
