-- What all scripts of the queue share; put in front of each.
--
-- KEYS[1] is the shard's epoch; then come KEYS_PER_QUEUE keys for every queue of the call, all in one cluster slot:
--   pending  sorted set by text: tenant NUL priority sequence token; the order of every lane in one key
--   bodies   hash: token -> the item's work
--   records  hash: token -> deliveries:receipt:member of `pending`; what has none is not held
--   leased   sorted set: token by the time its lease runs out. In flight is its size
--   holders  sorted set by text: tenant NUL token, of leased items; in flight by tenant is a range's size
--   dead     sorted set: token by the time it was set aside
--   ready    sorted set: tenant by virtual time, of lanes that may be served
--   blocked  sorted set: tenant by the time its rate allows more, or infinity while its cap is reached
--   resting  sorted set: tenant by virtual time, of lanes that owe something and are not ready
--   policies hash: tenant -> weight:max_in_flight:rate:burst
--   rates    hash: tenant -> tokens:refilled_at
--   state    hash: sequence, virtual_time, max_queued, max_in_flight
--   bell     list: an entry for each item that somebody who waits may have
-- ARGV[1] is the epoch to begin if there is none. All times are microseconds by this server's clock.
local NUL, AFTER_NUL = '\0', '\1'
local KEYS_PER_QUEUE = 13
local BELL_MAX = 128
local PRIORITY_DIGITS, SEQUENCE_DIGITS = 3, 16

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function digits(number)
  return string.format('%.0f', number)
end

local function exact(number)
  return string.format('%.17g', number)
end

-- The shard's epoch. A new one means that whatever was held before is gone.
local function epoch()
  local current = redis.call('GET', KEYS[1])
  if not current then
    current = ARGV[1]
    redis.call('SET', KEYS[1], current)
  end
  return current
end

local function queue_at(number)
  local first = 2 + (number - 1) * KEYS_PER_QUEUE
  return {
    pending = KEYS[first], bodies = KEYS[first + 1], records = KEYS[first + 2], leased = KEYS[first + 3],
    holders = KEYS[first + 4], dead = KEYS[first + 5], ready = KEYS[first + 6], blocked = KEYS[first + 7],
    resting = KEYS[first + 8], policies = KEYS[first + 9], rates = KEYS[first + 10], state = KEYS[first + 11],
    bell = KEYS[first + 12],
  }
end

-- Numbers that grow even when the clock does not, or goes back.
local function next_sequence(queue)
  local last = tonumber(redis.call('HGET', queue.state, 'sequence') or 0)
  local sequence = math.max(last + 1, now)
  redis.call('HSET', queue.state, 'sequence', digits(sequence))
  return sequence
end

local function member_of(tenant, priority, sequence, token)
  return tenant .. NUL .. string.format('%03d', 100 - priority) .. string.format('%016.0f', sequence) .. token
end

-- tenant, priority, sequence, token
local function parts_of(member)
  local nul = string.find(member, NUL, 1, true)
  local after_priority = nul + PRIORITY_DIGITS
  local after_sequence = after_priority + SEQUENCE_DIGITS
  return string.sub(member, 1, nul - 1), 100 - tonumber(string.sub(member, nul + 1, after_priority)),
    tonumber(string.sub(member, after_priority + 1, after_sequence)), string.sub(member, after_sequence + 1)
end

-- deliveries, receipt, member; nothing when the token is not held
local function record_of(queue, token)
  local record = redis.call('HGET', queue.records, token)
  if not record then
    return nil
  end
  local deliveries, receipt, member = string.match(record, '^(%d+):(%d+):(.*)$')
  return tonumber(deliveries), receipt, member
end

local function put_record(queue, token, deliveries, receipt, member)
  redis.call('HSET', queue.records, token, digits(deliveries) .. ':' .. receipt .. ':' .. member)
end

local function ring(queue, count)
  count = math.min(count, BELL_MAX - redis.call('LLEN', queue.bell))
  if count > 0 then
    local entries = {}
    for number = 1, count do
      entries[number] = '1'
    end
    redis.call('LPUSH', queue.bell, unpack(entries))
  end
end

local function virtual_time_of(queue)
  return tonumber(redis.call('HGET', queue.state, 'virtual_time') or 0)
end

local function make_ready(queue, tenant)
  local owed = tonumber(redis.call('ZSCORE', queue.resting, tenant) or 0)
  redis.call('ZADD', queue.ready, exact(math.max(owed, virtual_time_of(queue))), tenant)
  redis.call('ZREM', queue.resting, tenant)
end

local function unblock(queue, tenant)
  if redis.call('ZREM', queue.blocked, tenant) == 1 then
    make_ready(queue, tenant)
  end
end

local function rest(queue, tenant)
  local virtual_time = redis.call('ZSCORE', queue.ready, tenant)
  if virtual_time then
    redis.call('ZREM', queue.ready, tenant)
    redis.call('ZADD', queue.resting, virtual_time, tenant)
  end
end

local function put_in_lane(queue, tenant, member)
  redis.call('ZADD', queue.pending, 0, member)
  if not redis.call('ZSCORE', queue.ready, tenant) and not redis.call('ZSCORE', queue.blocked, tenant) then
    make_ready(queue, tenant)
  end
end

local function first_of_lane(queue, tenant, count)
  return redis.call('ZRANGEBYLEX', queue.pending, '[' .. tenant .. NUL, '(' .. tenant .. AFTER_NUL, 'LIMIT', 0, count)
end

local function in_flight_of(queue, tenant)
  return redis.call('ZLEXCOUNT', queue.holders, '[' .. tenant .. NUL, '(' .. tenant .. AFTER_NUL)
end

local function end_lease(queue, token, tenant)
  redis.call('ZREM', queue.leased, token)
  redis.call('ZREM', queue.holders, tenant .. NUL .. token)
  if redis.call('ZSCORE', queue.blocked, tenant) == 'inf' then
    unblock(queue, tenant)
  end
end

local function forget(queue, token)
  redis.call('HDEL', queue.records, token)
  redis.call('HDEL', queue.bodies, token)
end

-- Remove an item; how it stood.
local function remove(queue, token, member)
  local tenant = parts_of(member)
  local stood = 'queued'
  if redis.call('ZSCORE', queue.leased, token) then
    end_lease(queue, token, tenant)
    ring(queue, 1)
    stood = 'leased'
  elseif redis.call('ZREM', queue.dead, token) == 1 then
    stood = 'dead'
  else
    redis.call('ZREM', queue.pending, member)
    if #first_of_lane(queue, tenant, 1) == 0 then
      rest(queue, tenant)
      redis.call('ZREM', queue.blocked, tenant)
    end
  end
  forget(queue, token)
  return stood
end

-- Take back up to `count` items whose lease has run out; those delivered too often are set aside.
local function take_back(queue, count, max_deliveries, max_dead)
  local expired = redis.call('ZRANGEBYSCORE', queue.leased, '-inf', digits(now), 'LIMIT', 0, count)
  for _, token in ipairs(expired) do
    local deliveries, receipt, member = record_of(queue, token)
    local tenant = parts_of(member)
    end_lease(queue, token, tenant)
    if deliveries >= max_deliveries then
      redis.call('ZADD', queue.dead, digits(now), token)
    else
      put_in_lane(queue, tenant, member)
    end
  end
  local over = redis.call('ZCARD', queue.dead) - max_dead
  if over > 0 then
    for _, token in ipairs(redis.call('ZRANGE', queue.dead, 0, over - 1)) do
      redis.call('ZREM', queue.dead, token)
      forget(queue, token)
    end
  end
  if #expired > 0 then
    ring(queue, #expired)
  end
end
