-- ARGV: epoch, visibility, then token, tenant, priority, delivery and body of each item that another tier has handed out.
-- Answers the epoch, and the receipt of each that is leased from now on, empty where it is leased or set aside already.
local queue = queue_at(1)
local answer = {epoch()}
local until_time = digits(now + tonumber(ARGV[2]))
for first = 3, #ARGV, 5 do
  local token, tenant = ARGV[first], ARGV[first + 1]
  local _, _, member = record_of(queue, token)
  if member and (redis.call('ZSCORE', queue.leased, token) or redis.call('ZSCORE', queue.dead, token)) then
    answer[#answer + 1] = ''
  else
    local sequence = next_sequence(queue)
    if member then
      remove(queue, token, member)
      tenant = parts_of(member)
    else
      member = member_of(tenant, tonumber(ARGV[first + 2]), sequence, token)
    end
    put_record(queue, token, tonumber(ARGV[first + 3]), digits(sequence), member)
    redis.call('HSET', queue.bodies, token, ARGV[first + 4])
    redis.call('ZADD', queue.leased, until_time, token)
    redis.call('ZADD', queue.holders, 0, tenant .. NUL .. token)
    answer[#answer + 1] = digits(sequence)
  end
end
return answer
