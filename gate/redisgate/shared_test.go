//go:build unix

package redisgate_test

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

// strictly is what a strict limit with the defaults gives in a second: (n-1)/(span+guard).
func strictly(n int) float64 { return float64(n-1) / 1.02 }

// Three processes of twenty callers each, and of so many that the slots within the horizon do not
// suffice. They are never over, use what the guard allows, and have even shares and few round
// trips. One that asks before the others may get the slots of the first horizon, so shares are
// judged from then on.
func TestShared(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for _, c := range []struct {
		name string
		job
		want float64
	}{
		{"strict 100", job{Kind: "strict", N: 100, Callers: 20, For: 6 * time.Second}, strictly(100)},
		{"strict 2000", job{Kind: "strict", N: 2000, Callers: 20, For: 3 * time.Second}, strictly(2000)},
		{"strict 100, crowded", job{Kind: "strict", N: 100, Callers: 200, For: 6 * time.Second}, strictly(100)},
		// A process that has a third of 48 slots can't ask less often than once for 16.
		{"strict 100, half a horizon", job{Kind: "strict", N: 100, Callers: 20, Horizon: 500 * ms, For: 6 * time.Second}, strictly(100)},
		{"strict 100, half a horizon, crowded", job{Kind: "strict", N: 100, Callers: 200, Horizon: 500 * ms, For: 6 * time.Second}, strictly(100)},
		{"window 100", job{Kind: "window", N: 100, Callers: 50, For: 6 * time.Second}, 97},
		{"window 100, crowded", job{Kind: "window", N: 100, Callers: 200, For: 6 * time.Second}, 97},
		{"rate 2000", job{Kind: "rate", N: 2000, Burst: 1, Guard: 20 * ms, Callers: 20, For: 3 * time.Second}, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			judge(t, func(soft *soft) {
				c.job.Addrs, c.job.Span = []string{s.addr()}, time.Second
				c.job.Key = key()
				ws := crew(t, 3, c.job)
				soft.crew = ws
				begin(ws)
				most, got := report(t, ws, time.Second)
				limit := c.N
				if c.Kind == "rate" {
					limit += 1 + int(float64(c.N)*c.Guard.Seconds()) // burst + rate·(w + slack)
				}
				if most > limit {
					t.Errorf("%d in one second, where %d is the limit", most, limit)
				}
				// A machine that is busy with something else keeps processes from using slots in time,
				// and from asking for them. What that took is measured, and is not the gate's doing.
				all, late, trips := 0, 0, 0
				var halted time.Duration
				for _, w := range ws {
					all += len(w.grants) + w.late
					late += w.late
					trips += w.trips
					halted = max(halted, w.halted)
				}
				away := min(halted.Seconds(), c.For.Seconds()) * float64(c.N) // tokens of that time
				soft.atMost("slots that came too late", float64(late), 0.01*float64(all)+3*away)
				soft.atLeast("entries a second, with what the machine took", got+(float64(late)+away)/c.For.Seconds(), 0.97*c.want)
				soft.atMost("round trips", float64(trips), 0.1*float64(all)+float64(late))
				from := merged(ws)[0] + int64(1100*ms)
				sum := 0
				var shares []int
				for _, w := range ws {
					slices.Sort(w.grants)
					i, _ := slices.BinarySearch(w.grants, from)
					shares = append(shares, len(w.grants)-i+w.late)
					sum += len(w.grants) - i + w.late
				}
				far := 0.1 * float64(sum) / 3
				if c.Kind == "window" {
					far = float64(c.N) // an opening is for all processes that want a share of it, or for one
				}
				for i, share := range shares {
					if c.Kind != "window" {
						soft.atLeast("slots of a worker since the first horizon", float64(share), float64(sum)/3-far-away)
					}
					if d := float64(share) - float64(sum)/3; math.Abs(d) > far+away {
						soft.Errorf("since the first horizon worker %d of 3 has had %+.0f of %d slots more than an even share, want %.0f at most", i+1, d, sum, far)
					}
				}
				t.Logf("shares since the first horizon: %v", shares)
			})
		})
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what  string
		got   float64 // where 8 is wanted
		until int     // which play
		want  int     // plays
	}{{"a little slow", 7, 9, 1}, {"slow", 1, 3, 3}} {
		times := 0
		judge(t, func(soft *soft) {
			if times++; times < c.until {
				soft.atLeast("entries", c.got, 8)
			}
		})
		if want := c.want; times != want && os.Getenv("REDISGATE_EXACT") == "" {
			t.Errorf("%s: it was played %d times, want %d", c.what, times, want)
		}
	}
}
