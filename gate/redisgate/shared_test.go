//go:build unix

package redisgate_test

import (
	"testing"
	"time"
)

// strictly is what a strict limit with the defaults gives in a second: (n-1)/(span+guard).
func strictly(n int) float64 { return float64(n-1) / 1.02 }

// Three processes of twenty callers each: never over, what the guard allows, even shares, few
// round trips.
func TestShared(t *testing.T) {
	s := newServer(t).settled(2 * time.Second)
	for _, c := range []struct {
		name string
		job
		want float64
	}{
		{"strict 100", job{Kind: "strict", N: 100, Callers: 20, For: 7 * time.Second}, strictly(100)},
		{"strict 2000", job{Kind: "strict", N: 2000, Callers: 20, For: 3 * time.Second}, strictly(2000)},
		{"window 100", job{Kind: "window", N: 100, Callers: 50, For: 4 * time.Second}, 97},
		{"rate 2000", job{Kind: "rate", N: 2000, Burst: 1, Guard: 20 * ms, Callers: 20, For: 3 * time.Second}, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.job.Addrs, c.job.Span = []string{s.addr()}, time.Second
			// A machine that is busy with something else may keep the processes from using all of
			// their limit, but not, even once, from keeping it.
			for tries := 3; ; tries-- {
				c.job.Key = key()
				ws := crew(t, 3, c.job)
				begin(ws)
				most, got := report(t, ws, time.Second)
				limit := c.N
				if c.Kind == "rate" {
					limit += 1 + int(float64(c.N)*c.Guard.Seconds()) // burst + rate·(w + slack)
				}
				if most > limit {
					t.Fatalf("%d in one second, where %d is the limit", most, limit)
				}
				all, trips, fewest := 0, 0, len(ws[0].grants)
				for _, w := range ws {
					all += len(w.grants)
					trips += w.trips
					fewest = min(fewest, len(w.grants))
				}
				switch perGrant := float64(trips) / float64(all); {
				case got >= 0.97*c.want && perGrant <= 0.1 && (c.Kind == "window" && fewest*5 > all || fewest*30 > all*9):
					return
				case tries > 1:
					continue
				default:
					t.Fatalf("%.1f a second, want 97 %% of %.1f; %.3f round trips a grant, want 0.1; the smallest share is %d of %d", got, c.want, perGrant, fewest, all)
				}
			}
		})
	}
}
