-- ARGV: epoch, items wanted, visibility, deliveries before an item is set aside, items set aside at most, leases taken
-- back at most, lanes looked at.
-- Answers the epoch, when something is due that nobody rings for (empty: never), and for each item: number of the queue,
-- token, tenant, priority, receipt, delivery, body.
local wanted, visibility = tonumber(ARGV[2]), tonumber(ARGV[3])
local max_deliveries, max_dead, max_taken_back = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lanes_looked_at = tonumber(ARGV[7])
local ROUNDING = 1e-9
-- Lanes that turn out to be held back, in one call; the caller comes again at once when it is used up.
local LANES_BLOCKED_MAX = 64
local UNBLOCKED_MAX = 64
local RESTING_SWEPT_MAX = 8

local answer = {epoch(), ''}
local due = math.huge

-- What lanes are like, read once in a call for each queue: tenant -> its policy, tenant -> its leases.
local known_policies, known_in_flight

-- weight, cap (0: none), rate (0: none), burst
local function policy_of(queue, tenant)
  local known = known_policies[tenant]
  if not known then
    local policy = redis.call('HGET', queue.policies, tenant) or '1:0:0:1'
    local weight, cap, rate, burst = string.match(policy, '^(%d+):(%d+):([^:]+):(%d+)$')
    known = {tonumber(weight), tonumber(cap), tonumber(rate), tonumber(burst)}
    known_policies[tenant] = known
  end
  return unpack(known)
end

local function leases_of(queue, tenant)
  local known = known_in_flight[tenant]
  if not known then
    known = in_flight_of(queue, tenant)
    known_in_flight[tenant] = known
  end
  return known
end

-- Which lane is next: see fairness.py.
local function next_lane(queue, in_flight)
  local ready = redis.call('ZCARD', queue.ready)
  local lanes = redis.call('ZRANGE', queue.ready, 0, lanes_looked_at - 1, 'WITHSCORES')
  if ready <= 1 then
    return lanes[1], tonumber(lanes[2])
  end
  local weights, sum = {}, 0
  for number = 1, #lanes, 2 do
    weights[number] = policy_of(queue, lanes[number])
    sum = sum + weights[number]
  end
  local all = sum * ready / (#lanes / 2)
  for number = 1, #lanes, 2 do
    local share = math.ceil(weights[number] / all * (in_flight + 1) - ROUNDING)
    if leases_of(queue, lanes[number]) < share then
      return lanes[number], tonumber(lanes[number + 1])
    end
  end
  return lanes[1], tonumber(lanes[2])
end

local function block(queue, tenant, until_time)
  rest(queue, tenant)
  redis.call('ZADD', queue.blocked, until_time, tenant)
end

-- Whether the lane's cap or rate allows no delivery now; otherwise one is taken from its rate.
local function is_held_back(queue, tenant, cap, rate, burst)
  if cap > 0 and leases_of(queue, tenant) >= cap then
    block(queue, tenant, '+inf')
    return true
  end
  if rate == 0 then
    return false
  end
  local tokens, refilled_at = burst, now
  local bucket = redis.call('HGET', queue.rates, tenant)
  if bucket then
    tokens, refilled_at = string.match(bucket, '^([^:]+):(%d+)$')
    tokens = math.min(burst, tonumber(tokens) + math.max(0, now - tonumber(refilled_at)) * rate / 1e6)
  end
  if tokens >= 1 then
    redis.call('HSET', queue.rates, tenant, exact(tokens - 1) .. ':' .. digits(now))
    return false
  end
  redis.call('HSET', queue.rates, tenant, exact(tokens) .. ':' .. digits(now))
  block(queue, tenant, digits(now + math.floor((1 - tokens) / rate * 1e6) + 1))
  return true
end

local function deliver(queue, number, tenant, virtual_time, weight)
  local members = first_of_lane(queue, tenant, 2)
  local member = members[1]
  local _, priority, _, token = parts_of(member)
  local deliveries = record_of(queue, token) + 1
  local receipt = digits(next_sequence(queue))
  redis.call('ZREM', queue.pending, member)
  redis.call('ZADD', queue.leased, digits(now + visibility), token)
  redis.call('ZADD', queue.holders, 0, tenant .. NUL .. token)
  known_in_flight[tenant] = known_in_flight[tenant] and known_in_flight[tenant] + 1
  put_record(queue, token, deliveries, receipt, member)
  local began = math.max(virtual_time, virtual_time_of(queue))
  redis.call('HSET', queue.state, 'virtual_time', exact(began))
  redis.call('ZADD', queue.ready, exact(began + 1 / weight), tenant)
  if not members[2] then
    rest(queue, tenant)
  end
  local body = redis.call('HGET', queue.bodies, token)
  for _, value in ipairs({number, token, tenant, priority, receipt, deliveries, body}) do
    answer[#answer + 1] = value
  end
end

local function unblock_due(queue)
  for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', queue.blocked, '-inf', digits(now), 'LIMIT', 0, UNBLOCKED_MAX)) do
    unblock(queue, tenant)
  end
end

-- Lanes that owe nothing would begin anew where they stand.
local function sweep_resting(queue)
  local paid = redis.call(
    'ZRANGEBYSCORE', queue.resting, '-inf', exact(virtual_time_of(queue)), 'LIMIT', 0, RESTING_SWEPT_MAX)
  if #paid > 0 then
    redis.call('ZREM', queue.resting, unpack(paid))
  end
end

local function note_due(queue)
  for _, key in ipairs({queue.leased, queue.blocked}) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[2] and first[2] ~= 'inf' then
      due = math.min(due, tonumber(first[2]))
    end
  end
end

local function lease_from(queue, number)
  take_back(queue, max_taken_back, max_deliveries, max_dead)
  known_policies, known_in_flight = {}, {}
  unblock_due(queue)
  local cap_of_queue = tonumber(redis.call('HGET', queue.state, 'max_in_flight') or 0)
  local in_flight = redis.call('ZCARD', queue.leased)
  local blocked = 0
  while wanted > 0 and (cap_of_queue == 0 or in_flight < cap_of_queue) do
    local tenant, virtual_time = next_lane(queue, in_flight)
    if not tenant then
      break
    end
    local weight, cap, rate, burst = policy_of(queue, tenant)
    if is_held_back(queue, tenant, cap, rate, burst) then
      blocked = blocked + 1
      if blocked == LANES_BLOCKED_MAX then
        due = now
        break
      end
    else
      deliver(queue, number, tenant, virtual_time, weight)
      wanted, in_flight = wanted - 1, in_flight + 1
    end
  end
  sweep_resting(queue)
  note_due(queue)
  if redis.call('ZCARD', queue.ready) == 0 then
    -- nothing is there for anybody whom an old ring would wake
    redis.call('DEL', queue.bell)
  elseif redis.call('LLEN', queue.bell) == 0 and (cap_of_queue == 0 or in_flight < cap_of_queue) then
    ring(queue, 1)
  end
end

for number = 1, (#KEYS - 1) / KEYS_PER_QUEUE do
  if wanted > 0 then
    lease_from(queue_at(number), number)
  end
end
if due < math.huge then
  answer[2] = digits(math.max(0, due - now))
end
return answer
