-- history: what was done in the minutes that begin at some time or later, a slice at a time.
-- input {since, queue or false, task or false, whether apart by queue and task, after (minute) or false}
-- answers {{{minute, queue, task, {numbers}} …}, minute to go on behind or false}; names are empty where all is summed.
-- Cost: at most 1000 rows beyond the first minute of a slice, which has 201 at most.
local MOST = 1000

local function read_minute(minute, given, rows)
  local all, sum = call('HGETALL', base .. 'did:' .. minute), nil
  for i = 1, #all, 2 do
    local queue, task = Text.parted(all[i])
    if (not given[2] or given[2] == queue) and (not given[3] or given[3] == task) then
      local numbers = parse(all[i + 1])
      if given[4] then
        rows[#rows + 1] = {tonumber(minute), queue, task, numbers}
      elseif sum then
        History.together(sum, numbers)
      else
        sum = numbers
      end
    end
  end
  if sum then rows[#rows + 1] = {tonumber(minute), '', '', sum} end
  return #all / 2
end

local function verb(given)
  local from, rows, read = given[5] and '(' .. Text.whole(given[5]) or Text.whole(given[1]), {}, 0
  for _, minute in ipairs(call('ZRANGEBYSCORE', base .. 'minutes', from, '+inf', 'LIMIT', '0', Text.whole(MOST))) do
    read = read + read_minute(minute, given, rows)
    if read >= MOST then return {rows, tonumber(minute)} end
  end
  return {rows, false}
end
