-- Whether this server takes writes. Answers the epoch.
local current = epoch()
redis.call('SET', KEYS[1], current)
return {current}
