-- import_jobs: take over jobs with their history; each record succeeds or is refused alone.
-- input {limits, jobs, records}   arguments 3 and on: specs, then needs   answers {{state, refusal} …}, fewer than
-- asked when a job has changed since Python looked at it: the caller looks again and goes on from there. Cost: per
-- record its keys and its attempts.
local function verb(given)
  Transitions.declare(given[1])
  local ids, numbers, ways = given[2][1], given[2][2], Transitions.ways(given[2])
  local answers = {}
  Store.load(ids)
  for i, record in ipairs(given[3]) do
    local answer = Transitions.take_over(ids[i], arguments[2 + i], ways[numbers[i]], record)
    if not answer then break end
    answers[i] = answer
  end
  return answers
end
