-- ARGV: epoch, then tokens. Answers the epoch, and how each is held (empty: it is not).
local queue = queue_at(1)
local answer = {epoch()}
for number = 2, #ARGV do
  local token = ARGV[number]
  if redis.call('HEXISTS', queue.records, token) == 0 then
    answer[number] = ''
  elseif redis.call('ZSCORE', queue.leased, token) then
    answer[number] = 'leased'
  elseif redis.call('ZSCORE', queue.dead, token) then
    answer[number] = 'dead'
  else
    answer[number] = 'queued'
  end
end
return answer
