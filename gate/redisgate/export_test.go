package redisgate

import (
	"reflect"
	"strings"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// GrantedAt returns when the gate has granted the entry of a pass, by the wall clock. That is what limits are about: the
// caller reads its clock later, and much later if the system keeps it from running meanwhile.
func GrantedAt(p gate.Pass) time.Time {
	owner := reflect.ValueOf(p).Field(0).Elem()
	since := owner.Elem().FieldByName("since").Int()
	now := time.Now()
	return now.Add(time.Duration(since) - now.Sub(started))
}

// Script returns the script with another clock and another server in it. The last key but one holds
// the instant, as a list. The last one holds, as a string, what the server says of itself.
func Script() string {
	s := replaced(text, "redis.call('TIME')", "redis.call('LRANGE', KEYS[#KEYS - 1], 0, 1)")
	s = replaced(s, "redis.call('INFO', 'replication')", "redis.call('GET', KEYS[#KEYS])")
	return replaced(s, "redis.call('INFO', 'server')", "redis.call('GET', KEYS[#KEYS])")
}

// Text returns the script.
func Text() string { return text }

// LifeKey is the key that says since when a server has lost no key.
const LifeKey = "{escapement}:life"

// Skew makes this process see the server's clock wrong by the seconds in the key "skew".
func Skew() {
	const skewed = `(function()
		local t, skew = redis.call('TIME'), tonumber(redis.call('GET', 'skew') or '0')
		local us = tonumber(t[1]) * 1000000 + tonumber(t[2]) + math.floor(skew * 1000000)
		return { string.format('%.0f', math.floor(us / 1000000)), string.format('%.0f', us % 1000000) }
	end)()`
	text, quick = replaced(text, "redis.call('TIME')", skewed), quickCodeOf(replaced(quickLua, "redis.call('TIME')", skewed))
	script = hashed(text)
}

// QuickScript returns the script of quick calls with another clock and another server in it, as Script has them.
func QuickScript() string {
	s := replaced(quick.text, "redis.call('TIME')", "redis.call('LRANGE', KEYS[#KEYS - 1], 0, 1)")
	s = replaced(s, "redis.call('INFO', 'replication')", "redis.call('GET', KEYS[#KEYS])")
	return replaced(s, "redis.call('INFO', 'server')", "redis.call('GET', KEYS[#KEYS])")
}

// QuickFunction returns the name of the function for quick calls, and its library.
func QuickFunction() (name, library string) { return quick.function, quick.library }

// MarkOf is what quick calls say of limits.
func MarkOf(version int, plan string) string { return markOf(version, plan) }

func replaced(s, old, by string) string {
	if strings.Count(s, old) != 1 {
		panic("the script must have " + old + " once")
	}
	return strings.Replace(s, old, by, 1)
}

// Learn returns the part of the script in which an adaptive limit learns, as a script of its own: body calls learn.
func Learn(body string) string {
	part, err := parts.ReadFile("script/3b_learn.lua")
	if err != nil {
		panic(err)
	}
	return "local learn\nlocal max, min, floor, ceil = math.max, math.min, math.floor, math.ceil\n" + string(part) + body
}

// Teach has the adaptive limit hear of all successes now.
func (g *Gate) Teach() {
	g.mu.Lock()
	if g.lessons.count > 0 {
		g.link.askNow = true
		g.advance(instant())
	}
	for g.running {
		g.mu.Unlock()
		time.Sleep(50 * time.Microsecond)
		g.mu.Lock()
	}
	g.mu.Unlock()
}
