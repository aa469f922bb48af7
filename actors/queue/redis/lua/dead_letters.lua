-- ARGV: epoch, letters wanted, deliveries before an item is set aside, items set aside at most, leases taken back at most.
-- Answers the epoch, and for each, the latest first: token, tenant, priority, deliveries, when it was set aside, body.
local queue = queue_at(1)
local answer = {epoch()}
take_back(queue, tonumber(ARGV[5]), tonumber(ARGV[3]), tonumber(ARGV[4]))
local tokens = redis.call('ZREVRANGE', queue.dead, 0, tonumber(ARGV[2]) - 1, 'WITHSCORES')
for first = 1, #tokens, 2 do
  local token = tokens[first]
  local deliveries, _, member = record_of(queue, token)
  local tenant, priority = parts_of(member)
  local letter = {token, tenant, priority, deliveries, digits(tonumber(tokens[first + 1])),
    redis.call('HGET', queue.bodies, token)}
  for _, value in ipairs(letter) do
    answer[#answer + 1] = value
  end
end
return answer
