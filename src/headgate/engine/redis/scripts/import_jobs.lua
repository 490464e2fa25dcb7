-- import_jobs: take over jobs with their history; each record succeeds or is refused alone.
-- input {limits, records}   arguments 3 and on: specs and needs   answers {{state, refusal} …}, fewer than asked when a job has changed since
-- Python looked at it: the caller looks again and goes on from there.
-- Cost: per record its keys and its attempts.
local function verb(given)
  Moves.declare(given[1])
  local answers = {}
  for i, record in ipairs(given[2]) do
    local answer = Moves.take_over(record)
    if not answer then break end
    answers[i] = answer
  end
  return answers
end
