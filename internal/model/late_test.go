package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// lateClock is the real clock of a system that rings half of its alarms late, by less than most.
type lateClock struct {
	clock.Clock
	mu   sync.Mutex
	rand *rand.Rand
	most time.Duration
}

func (c *lateClock) AfterFunc(d time.Duration, f func()) *clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most > 0 && c.rand.IntN(2) == 0 {
		d = max(d, 0) + time.Duration(c.rand.Int64N(int64(c.most)))
	}
	return c.Clock.AfterFunc(d, f)
}

// lateRate is a Rate whose alarms are late.
type lateRate struct {
	interval, slack, late time.Duration
	burst, waiters        int
	precision             pace.Precision
	members               string // of the All that it is in: none, slots, window
	seed                  uint64
}

func (l lateRate) String() string {
	return fmt.Sprintf("Every(%v), Burst %d, Slack %v, %v, alarms up to %v late, %d callers, beside %s", l.interval, l.burst, l.slack, l.precision, l.late, l.waiters, l.members)
}

func drawLate(t *rapid.T) lateRate {
	l := lateRate{slack: -1}
	l.interval = time.Duration(rapid.SampledFrom([]int64{1000, 7919, 99_991, 100_003, 999_983, 10_000_019, int64(time.Second / 3)}).Draw(t, "interval"))
	l.burst = rapid.SampledFrom([]int{1, 1, 1, 2, 5, 17}).Draw(t, "burst")
	if n := rapid.SampledFrom([]int64{0, 1, 3, 10, 100}).Draw(t, "slack"); n > 0 {
		l.slack = time.Duration(n)*l.interval + time.Duration(rapid.IntRange(0, 999).Draw(t, "more slack"))
	}
	l.late = l.interval * time.Duration(rapid.SampledFrom([]int64{0, 1, 3, 20, 300}).Draw(t, "late"))
	l.waiters = rapid.SampledFrom([]int{1, 2, 20, 100}).Draw(t, "callers")
	l.precision = rapid.SampledFrom([]pace.Precision{pace.PrecisionAuto, pace.PrecisionPrecise, pace.PrecisionCoalesced}).Draw(t, "precision")
	l.members = rapid.SampledFrom([]string{"none", "slots", "window"}).Draw(t, "members")
	l.seed = rapid.Uint64().Draw(t, "seed")
	return l
}

// run lets callers enter in a loop for so many intervals, and returns the instants of their grants.
func (l lateRate) run(b *bubble.B, intervals int, meddle func(*gate.Rate)) (*gate.Rate, []time.Duration) {
	c := &lateClock{Clock: clock.New(), rand: rand.New(rand.NewPCG(l.seed, 0)), most: l.late}
	r := gate.NewRate(pace.Every(l.interval), &gate.RateOptions{Burst: l.burst, Slack: l.slack, Precision: l.precision, Clock: c})
	var g gate.Gate = r
	switch l.members {
	case "slots":
		g = gate.All(gate.NewConcurrency(1000), r)
	case "window":
		g = gate.All(r, gate.NewWindow(1000*l.burst, l.interval, &gate.WindowOptions{Clock: c}))
	}
	var mu sync.Mutex
	var at []time.Duration
	ctx, cancel := context.WithCancel(context.Background())
	for range l.waiters {
		go func() {
			for {
				p, err := g.Enter(ctx, 1)
				if err != nil {
					return
				}
				p.Leave(nil)
				mu.Lock()
				at = append(at, b.Now())
				mu.Unlock()
			}
		}()
	}
	if meddle != nil {
		go meddle(r)
	}
	time.Sleep(time.Duration(intervals) * l.interval)
	synctest.Wait()
	cancel()
	synctest.Wait()
	time.Sleep(2 * l.late)
	return r, at
}

// However late alarms are, no span has more than the bound, and each token that fell due was granted or is
// counted as forfeited.
func TestRateLate(t *testing.T) {
	const intervals = 1000
	explore(t, 200, func(rt *rapid.T) {
		l := drawLate(rt)
		var err error
		bubble.Real(t, func(b *bubble.B) {
			r, at := l.run(b, intervals, nil)
			err = l.check(at, int(r.Stats().Forfeited), intervals)
		})
		if err != nil {
			rt.Fatalf("%v: %v", l, err)
		}
	})
}

func (l lateRate) check(at []time.Duration, forfeited, intervals int) error {
	slack := max(0, l.slack)
	for i := range at {
		for j := i; j < len(at); j++ {
			if n := j - i + 1; time.Duration(n-l.burst)*l.interval > at[j]-at[i]+slack {
				return fmt.Errorf("%d tokens in %v", n, at[j]-at[i])
			}
		}
	}
	if len(at) == 0 {
		return fmt.Errorf("no token in %d intervals", intervals)
	}
	// The bucket was full at first, and an interval brings a token. Parts of one may be lost.
	least := l.burst + int(at[len(at)-1]/l.interval) - 2
	if n := len(at) + forfeited; n < least || n > l.burst+intervals {
		return fmt.Errorf("%d granted until %v and %d forfeited, want %d to %d in all", len(at), at[len(at)-1], forfeited, least, l.burst+intervals)
	}
	if l.late <= l.slack && forfeited > 0 {
		return fmt.Errorf("%d forfeited, although the slack is longer than any lateness", forfeited)
	}
	return nil
}

// planned is what a rate is from an instant on.
type planned struct {
	at       time.Duration
	interval time.Duration
	burst    int
	until    time.Duration // of a hold
}

// The bound holds also while the plan changes, with the rates and bursts that were in force.
func TestRateLatePlans(t *testing.T) {
	explore(t, 200, func(rt *rapid.T) {
		l := drawLate(rt)
		var err error
		bubble.Real(t, func(b *bubble.B) {
			plans := []planned{{0, l.interval, l.burst, 0}}
			meddle := func(g *gate.Rate) {
				r := rand.New(rand.NewPCG(l.seed, 1))
				for range 9 {
					time.Sleep(time.Duration(r.Int64N(int64(20 * l.interval))))
					p := plans[len(plans)-1]
					p.at = b.Now()
					switch r.IntN(3) {
					case 0:
						p.interval = max(1, l.interval*time.Duration(1+r.IntN(30))/10)
						g.SetRate(pace.Every(p.interval))
					case 1:
						p.burst = 1 + r.IntN(9)
						g.SetBurst(p.burst)
					default:
						d := time.Duration(r.Int64N(int64(10 * l.interval)))
						p.until = max(p.until, p.at+d)
						g.Hold(d)
					}
					plans = append(plans, p)
				}
			}
			_, at := l.run(b, 150, meddle)
			err = l.checkPlans(at, plans)
		})
		if err != nil {
			rt.Fatalf("%v: %v", l, err)
		}
	})
}

func (l lateRate) checkPlans(at []time.Duration, plans []planned) error {
	slack, before := max(0, l.slack), max(0, l.slack)+l.late
	for i, from := range at {
		for j := i; j < min(i+400, len(at)); j++ {
			to := at[j]
			tokens, fastest, burst := 0.0, 0.0, 0
			for k, p := range plans {
				end := to
				if k+1 < len(plans) {
					end = min(end, plans[k+1].at)
				}
				rate := 1 / float64(p.interval)
				if begin := max(from, p.at); begin < end {
					tokens += rate * float64(end-begin)
				}
				if p.at <= to && (k+1 == len(plans) || plans[k+1].at >= from-before) {
					fastest = max(fastest, rate)
				}
				if p.at <= to && (k+1 == len(plans) || plans[k+1].at >= from) {
					burst = max(burst, p.burst)
				}
			}
			if most := float64(burst) + tokens + fastest*float64(slack) + 1e-6; float64(j-i+1) > most {
				return fmt.Errorf("%d tokens from %v to %v, at most %v: %+v", j-i+1, from, to, most, plans)
			}
		}
		if held := slices.ContainsFunc(plans, func(p planned) bool { return p.at < from && from < p.until }); held {
			return fmt.Errorf("a grant at %v, during a hold: %+v", from, plans)
		}
	}
	return nil
}
