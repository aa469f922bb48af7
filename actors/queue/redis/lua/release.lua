-- ARGV: epoch, then token and receipt of each. Answers the epoch, and 1 for each item that was returned, else 0.
local queue = queue_at(1)
local answer = {epoch()}
local returned = 0
for first = 2, #ARGV, 2 do
  local token = ARGV[first]
  local deliveries, receipt, member = record_of(queue, token)
  if member and receipt == ARGV[first + 1] and redis.call('ZSCORE', queue.leased, token) then
    local tenant = parts_of(member)
    end_lease(queue, token, tenant)
    put_record(queue, token, deliveries - 1, '0', member)
    put_in_lane(queue, tenant, member)
    returned = returned + 1
    answer[#answer + 1] = 1
  else
    answer[#answer + 1] = 0
  end
end
if returned > 0 then
  ring(queue, returned)
end
return answer
