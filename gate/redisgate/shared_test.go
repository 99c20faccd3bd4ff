package redisgate_test

import (
	"testing"
	"time"
)

// strict is what a strict limit with the defaults gives in a span: (n-1)/(span+guard).
func strictly(n int) float64 { return float64(n-1) / 1.02 }

// Three processes of twenty callers each: never over, what the guard allows, even shares, few
// round trips.
func TestShared(t *testing.T) {
	s := newServer(t).settled(2 * time.Second)
	for name, c := range map[string]struct {
		job
		want float64
	}{
		"strict 100":  {job{Kind: "strict", N: 100}, strictly(100)},
		"strict 2000": {job{Kind: "strict", N: 2000}, strictly(2000)},
		"window 100":  {job{Kind: "window", N: 100, Callers: 50}, 97},
		"rate 2000":   {job{Kind: "rate", N: 2000, Burst: 1, Guard: 20 * ms}, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Addrs, c.job.Key, c.job.Span, c.job.For = []string{s.addr()}, key(), time.Second, 4*time.Second
			if c.Callers == 0 {
				c.Callers = 20
			}
			ws := crew(t, 3, c.job)
			begin(ws)
			most, got := report(t, ws, time.Second)
			if limit := c.N; c.Kind != "rate" && most > limit || most > limit+1+limit/50 {
				t.Errorf("%d in one second, where %d is the limit", most, limit)
			}
			if got < 0.97*c.want {
				t.Errorf("%.1f a second, want %.1f", got, c.want)
			}
			even(t, ws)
		})
	}
}
