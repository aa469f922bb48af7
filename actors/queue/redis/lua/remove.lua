-- ARGV: epoch, `any` or `dead` for what may be removed, then token and receipt (empty: whose ever it is) of each.
-- Answers the epoch, and for each: how the removed item stood (empty: nothing removed), 1 if the receipt was the lease's.
local queue = queue_at(1)
local answer = {epoch()}
for first = 3, #ARGV, 2 do
  local token = ARGV[first]
  local _, receipt, member = record_of(queue, token)
  local stood, holds = '', 0
  if member and (ARGV[2] == 'any' or redis.call('ZSCORE', queue.dead, token)) then
    stood = remove(queue, token, member)
    if stood == 'leased' and receipt == ARGV[first + 1] then
      holds = 1
    end
  end
  answer[#answer + 1] = stood
  answer[#answer + 1] = holds
end
return answer
