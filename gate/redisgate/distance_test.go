//go:build unix

package redisgate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate/redisgate"
	"github.com/escapement-go/escapement/pace"
)

// away has the proxy stand at a distance: its round trip takes so long, and up to a fifth more or less.
func (p *proxy) away(t testing.TB, rtt time.Duration) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			there := time.Duration(float64(rtt) / 2 * (0.8 + 0.4*rand.Float64()))
			back := time.Duration(float64(rtt) / 2 * (0.8 + 0.4*rand.Float64()))
			p.set(func() { p.slow, p.delay = there, back })
			select {
			case <-stop:
				return
			case <-time.After(rtt/4 + ms):
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
}

// However far away Redis is, the gate works with its defaults, and is never over, also where another member is near.
func TestDistance(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for _, c := range []struct {
		rtt  time.Duration
		near int // members beside the far one
		used float64
	}{
		{ms / 10, 0, 0.9 * 97},
		{50 * ms, 0, 0.9 * 94},
		{50 * ms, 1, 0.9 * 94},
		{100 * ms, 0, 0.9 * 90},
		{300 * ms, 0, 0.9 * 76},
		{300 * ms, 1, 0.9 * 76},
	} {
		t.Run(fmt.Sprintf("%v, %d near", c.rtt, c.near), func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.addr())
			p.away(t, c.rtt)
			addrs := []string{p.addr()}
			for range c.near {
				addrs = append(addrs, s.addr())
			}
			judge(t, func(soft *soft) {
				w := newSwarm(t, len(addrs), redisgate.Limits{redisgate.Strict(100, time.Second, nil)}, addrs...)
				_, tokens, trips := w.measure(soft, 2*time.Second+12*c.rtt, 4*time.Second, 100*len(addrs), func(ctx context.Context, i int) {
					if p, err := w.enter(ctx, i%len(addrs), 1); err == nil {
						p.Leave(nil)
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					} else {
						time.Sleep(10 * ms)
					}
				})
				t.Logf("%.1f tokens a second, %.3f round trips a grant, at most %d", tokens, trips, w.most(time.Second))
				if most := w.most(time.Second); most > 100 {
					t.Errorf("%d in a second, where 100 is the limit", most)
				}
				soft.atLeast("tokens a second", tokens, c.used)
			})
		})
	}
}

// Where the round trip is too long for a limit, the first entry says so, and what to set.
func TestTooFar(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	p := newProxy(t, s.addr())
	p.set(func() { p.delay = 80 * ms })
	far := through(t, p)
	enter := func(l redisgate.Limit) error {
		g := redisgate.New(far, key(), redisgate.Limits{l}, nil)
		defer closed(t, g)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := g.Enter(ctx, 1)
		return err
	}
	err := enter(redisgate.Strict(10, 100*ms, nil))
	var e *redisgate.DistanceError
	if !errors.As(err, &e) || e.RoundTrip < 80*ms || e.Setting != "Guard" || e.Least < e.RoundTrip {
		t.Fatalf("Enter returned %v, want a *DistanceError", err)
	}
	if err := enter(redisgate.Strict(10, 100*ms, &redisgate.StrictOptions{Guard: e.Least})); err != nil {
		t.Errorf("with what the error says Enter returned %v", err)
	}
}

// A server that is near and was slow for some answers is not far away, however short the guard.
func TestSlowIsNotFar(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	judge(t, func(soft *soft) { slowIsNotFar(t, soft, s) })
}

func slowIsNotFar(t *testing.T, soft *soft, s *server) {
	p := newProxy(t, s.addr())
	limits := redisgate.Limits{redisgate.Window(1999, 7*ms, nil)} // with a guard of 10 ms
	far := 0
	for _, late := range []time.Duration{15 * ms, 40 * ms, 60 * ms, 100 * ms} {
		g := redisgate.New(through(t, p), key(), limits, nil)
		defer closed(t, g)
		enter := func(first bool) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if first {
				p.set(func() { p.delay = late })
				time.AfterFunc(3*late, func() { p.set(func() { p.delay = 0 }) })
			}
			if _, err := g.Enter(ctx, 1); errors.As(err, new(*redisgate.DistanceError)) {
				far++
				t.Logf("an answer came after %v: %v", late, err)
			}
		}
		for i := range 20 {
			enter(i%8 == 5)
		}
	}
	soft.atMost("times that the server was taken for far away", float64(far), 0)
}

// The error says which round trip it comes of, also where that is short and the limit has no time for it at all.
func TestTooFarIsMeasured(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(2 * time.Second)
	for _, c := range []struct {
		limit       redisgate.Limit
		delay, most time.Duration // the round trip takes from delay to most, on a machine that is not busy
	}{
		{redisgate.Rate(pace.PerSecond(100), &redisgate.RateOptions{Slack: 1}), 0, 30 * ms},
		{redisgate.Window(1999, 7*ms, nil), 30 * ms, 100 * ms},
	} {
		p := newProxy(t, s.addr())
		p.set(func() { p.delay = c.delay })
		g := redisgate.New(through(t, p), key(), redisgate.Limits{c.limit}, nil)
		defer closed(t, g)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := g.Enter(ctx, 1)
		cancel()
		var e *redisgate.DistanceError
		if !errors.As(err, &e) || e.RoundTrip <= c.delay || e.RoundTrip > 10*c.most || !strings.Contains(err.Error(), e.RoundTrip.String()) {
			t.Errorf("Enter returned %v, want a *DistanceError with a round trip from %v to %v", err, c.delay, c.most)
		}
	}
}

// Members that are near and far in turn, with entries as late as each of them may be: whichever instants they choose,
// never too many fall into one span. When the far ones are gone, the near one has its slots back.
func TestScriptFarAndNear(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, start = int64(1_000_000), int64(1_790_000_000_000_000)
	type member struct{ late, wide int64 }
	near, far, further := member{20_000, 0}, member{120_000, 100_000}, member{320_000, 300_000}
	for name, limit := range map[string][]any{
		"one by one": {"g", sec + 20_000, 99, 1, 0, 1},
		"burst":      {"g", sec + 20_000, 60, 40, 0, 1},
		"window":     {"w", sec + 20_000, 100, sec / 128, 0, 0},
	} {
		type entry struct{ slot, late, cost int64 }
		most, used := int64(0), int64(0)
		for seed := range uint64(6) {
			s.fresh()
			r := rand.New(rand.NewPCG(seed, 7))
			var all []entry
			epoch, now := int64(0), int64(0)
			ask := func(who string, m member, cost, count int64) {
				s.at(t, start+now, "one", 1000)
				row := append(append([]any{who, sec, m.late, sec, epoch, 0, min(epoch, 1), 0, 0, 0, 0, 0, 1}, limit...), m.wide, 0, 2*sec+m.late, 0)
				a := s.call(t, append(row, "d", cost, count, 0)...)
				epoch = a[1]
				for _, delay := range a[20 : 20+a[17]-int64(len(a[20+a[17]:]))] {
					if delay >= 0 {
						all = append(all, entry{now + delay, m.late, cost})
					}
				}
			}
			for now < 20*sec {
				now += r.Int64N(400_000)
				cost := int64(1)
				if name == "burst" {
					cost += r.Int64N(40)
				}
				switch m := r.IntN(3); {
				case m == 0 && now%(18*sec) < 4*sec:
					ask("far", far, cost, 30)
				case m == 1 && now%(18*sec) < 4*sec:
					ask("further", further, cost, 30)
				default:
					ask("near", near, cost, 30)
				}
			}
			for _, e := range all {
				from, n := e.slot+e.late, int64(0)
				for _, o := range all {
					if o.slot+o.late >= from && o.slot < from+sec {
						n += o.cost
					}
				}
				most = max(most, n)
				if e.slot > 14*sec && e.slot <= 15*sec {
					used += e.cost
				}
			}
		}
		t.Logf("%s: at most %d in a second, %d where only the near one is left", name, most, used/6)
		if most > 100 {
			t.Errorf("%s: %d tokens can fall into a second, where 100 is the limit", name, most)
		}
		if name == "one by one" && used/6 < 95 {
			t.Errorf("%d slots in a second where only the near member is left, want 97", used/6)
		}
	}
}
