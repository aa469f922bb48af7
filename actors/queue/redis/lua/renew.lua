-- ARGV: epoch, visibility, then token and receipt of each. Answers the epoch, and 1 for each lease that holds, else 0.
local queue = queue_at(1)
local answer = {epoch()}
for first = 3, #ARGV, 2 do
  local token = ARGV[first]
  local until_time = redis.call('ZSCORE', queue.leased, token)
  local _, receipt = record_of(queue, token)
  if until_time and tonumber(until_time) > now and receipt == ARGV[first + 1] then
    redis.call('ZADD', queue.leased, digits(now + tonumber(ARGV[2])), token)
    answer[#answer + 1] = 1
  else
    answer[#answer + 1] = 0
  end
end
return answer
