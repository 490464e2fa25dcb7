-- Runs the verb; the last part of every script. Answers {status, raw texts …}: status is the msgpack of
-- {'ok', answer} or of a refusal {code, …}; other errors go to the caller as they are, with nothing written.

local raw = {}

local ok, answer = pcall(function()
  Step.begin()
  local found = verb(input, raw)
  Step.finish()
  return found
end)

if ok then
  return {pack({'ok', answer}), unpack(raw)}
elseif type(answer) == 'table' and answer.refused then
  return {pack(answer.refused)}
elseif type(answer) == 'table' then
  return answer
end
return redis.error_reply('HEADGATE ' .. tostring(answer))
