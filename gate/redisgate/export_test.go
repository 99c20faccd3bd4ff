package redisgate

import "strings"

// Script returns the script with another clock and another server in it. The third key holds the
// instant, as a list. The fourth holds, as a string, what the server says of itself.
func Script() string {
	s := replaced(text, "redis.call('TIME')", "redis.call('LRANGE', KEYS[3], 0, 1)")
	return replaced(s, "redis.call('INFO', 'server')", "redis.call('GET', KEYS[4])")
}

// Skew makes this process see the server's clock wrong by the seconds in the key "skew".
func Skew() {
	text = replaced(text, "redis.call('TIME')", `(function()
		local t, skew = redis.call('TIME'), tonumber(redis.call('GET', 'skew') or '0')
		local us = tonumber(t[1]) * 1000000 + tonumber(t[2]) + math.floor(skew * 1000000)
		return { string.format('%.0f', math.floor(us / 1000000)), string.format('%.0f', us % 1000000) }
	end)()`)
	script = hashed(text)
}

func replaced(s, old, by string) string {
	if strings.Count(s, old) != 1 {
		panic("the script must have " + old + " once")
	}
	return strings.Replace(s, old, by, 1)
}
