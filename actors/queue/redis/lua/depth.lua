-- ARGV: epoch, lanes listed at most. Answers the epoch, items queued, leased and set aside, and for each lane: tenant,
-- items queued, leased, and the age of the oldest that is queued.
local queue = queue_at(1)
local max_lanes = tonumber(ARGV[2])
local answer = {
  epoch(), redis.call('ZCARD', queue.pending), redis.call('ZCARD', queue.leased), redis.call('ZCARD', queue.dead)
}

-- The tenant of the first member behind `bound`, by one step in the index.
local function tenant_after(key, bound)
  local member = redis.call('ZRANGEBYLEX', key, bound, '+', 'LIMIT', 0, 1)[1]
  return member and string.sub(member, 1, string.find(member, NUL, 1, true) - 1)
end

-- The oldest item may stand behind younger ones of a higher priority: look at the first of each priority.
local function oldest_of(tenant)
  local bound, oldest = '[' .. tenant .. NUL, now
  while true do
    local member = redis.call(
      'ZRANGEBYLEX', queue.pending, bound, '(' .. tenant .. AFTER_NUL, 'LIMIT', 0, 1)[1]
    if not member then
      return oldest
    end
    local _, priority, sequence = parts_of(member)
    oldest = math.min(oldest, sequence)
    bound = '[' .. tenant .. NUL .. string.format('%03d', 100 - priority + 1)
  end
end

-- Lua's own comparison follows the server's locale; the index goes by bytes.
local function is_before(left, right)
  for position = 1, math.min(#left, #right) do
    local a, b = string.byte(left, position), string.byte(right, position)
    if a ~= b then
      return a < b
    end
  end
  return #left < #right
end

local bound = '-'
for _ = 1, max_lanes do
  local waiting, working = tenant_after(queue.pending, bound), tenant_after(queue.holders, bound)
  local tenant = waiting
  if not waiting or (working and is_before(working, waiting)) then
    tenant = working
  end
  if not tenant then
    break
  end
  answer[#answer + 1] = tenant
  answer[#answer + 1] = redis.call(
    'ZLEXCOUNT', queue.pending, '[' .. tenant .. NUL, '(' .. tenant .. AFTER_NUL)
  answer[#answer + 1] = in_flight_of(queue, tenant)
  answer[#answer + 1] = digits(math.max(0, now - oldest_of(tenant)))
  bound = '[' .. tenant .. AFTER_NUL
end
return answer
