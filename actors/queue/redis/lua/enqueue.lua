-- ARGV: epoch, then token, tenant, priority and body of each item. Answers the epoch and what became of each.
local queue = queue_at(1)
local answer = {epoch()}
local queued = redis.call('ZCARD', queue.pending)
local max_queued = tonumber(redis.call('HGET', queue.state, 'max_queued') or 1000000)
local added = 0
for first = 2, #ARGV, 4 do
  local token, tenant = ARGV[first], ARGV[first + 1]
  if redis.call('HEXISTS', queue.records, token) == 1 then
    answer[#answer + 1] = 'held'
  elseif queued + added >= max_queued then
    answer[#answer + 1] = 'refused'
  else
    local member = member_of(tenant, tonumber(ARGV[first + 2]), next_sequence(queue), token)
    put_record(queue, token, 0, '0', member)
    redis.call('HSET', queue.bodies, token, ARGV[first + 3])
    put_in_lane(queue, tenant, member)
    added = added + 1
    answer[#answer + 1] = 'enqueued'
  end
end
if added > 0 then
  ring(queue, added)
end
return answer
