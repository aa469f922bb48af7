-- ARGV: epoch, then `lane`, tenant and its policy, or `queue`, items queued and leases at most (0: no cap).
local queue = queue_at(1)
local answer = {epoch()}
if ARGV[2] == 'lane' then
  redis.call('HSET', queue.policies, ARGV[3], ARGV[4])
  redis.call('HDEL', queue.rates, ARGV[3])
  unblock(queue, ARGV[3])
else
  redis.call('HSET', queue.state, 'max_queued', ARGV[3], 'max_in_flight', ARGV[4])
end
ring(queue, BELL_MAX)
return answer
