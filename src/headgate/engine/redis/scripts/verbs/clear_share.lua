-- clear_share: take an operator's weight back.   input {share}   answers {whether there was one, whether go_on has something
-- to do}. Cost: as set_share.
local function verb(given)
  local there = call('HEXISTS', base .. 'weights', given[1]) == 1
  if there then Shares.set(given[1], false) end
  return {there, Shares.are_left()}
end
