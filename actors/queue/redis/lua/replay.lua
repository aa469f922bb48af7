-- ARGV: epoch, then tokens. Answers the epoch, and 1 for each item that is queued again, else 0.
local queue = queue_at(1)
local answer = {epoch()}
for number = 2, #ARGV do
  local token = ARGV[number]
  if redis.call('ZREM', queue.dead, token) == 1 then
    local _, _, member = record_of(queue, token)
    put_record(queue, token, 0, '0', member)
    put_in_lane(queue, (parts_of(member)), member)
    ring(queue, 1)
    answer[number] = 1
  else
    answer[number] = 0
  end
end
return answer
