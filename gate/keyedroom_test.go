package gate_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// counting is a clock that counts how often it is read.
type counting struct {
	clock.Clock
	reads *atomic.Int64
}

func (c counting) Since(t time.Time) time.Duration {
	c.reads.Add(1)
	return c.Clock.Since(t)
}

// asked is a gate from elsewhere that counts how often it is asked for its Stats.
type asked struct {
	gate.Gate
	count *atomic.Int64
	f     func() // called then, if not nil
}

func (a asked) Stats() gate.Stats {
	a.count.Add(1)
	if a.f != nil {
		a.f()
	}
	s, _ := gate.StatsOf(a.Gate)
	return s
}

// With thousands of busy keys a new one is refused without a look at any of them, once they have been
// looked at, and TryEnter looks at 256 at a time.
func TestFullKeyedIsBoundedWork(t *testing.T) {
	const atOnce = 256
	keys := 1000 + gate.Fewer(4000)
	bubble.Mock(t, func(b *bubble.B) {
		var looks atomic.Int64
		clk := counting{b.Clock(), &looks}
		for name, make := range map[string]func(int) gate.Gate{
			"rates": func(int) gate.Gate { return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: clk}) },
			"composites": func(int) gate.Gate {
				return gate.All(gate.NewConcurrency(1), gate.NewWindow(1, time.Hour, &gate.WindowOptions{Clock: clk}))
			},
			"slots":   func(int) gate.Gate { return gate.NewConcurrency(1) },
			"telling": func(int) gate.Gate { return asked{gate.NewConcurrency(1), &looks, nil} },
			"mute":    func(int) gate.Gate { return mute{gate.NewConcurrency(1)} },
		} {
			k := gate.NewKeyed(make, &gate.KeyedOptions{MaxKeys: keys, Idle: 100 * time.Hour, Clock: clk})
			var passes []gate.Pass
			for key := range keys {
				p, ok := k.TryEnter(key, 1)
				if !ok {
					b.Fatalf("%s: refused", name)
				}
				passes = append(passes, p)
			}
			b.Advance(time.Second)
			try := func(most int64) {
				b.Helper()
				before := looks.Load()
				if _, ok := k.TryEnter(-1, 1); ok {
					b.Fatalf("%s: let in", name)
				}
				if n := looks.Load() - before; n > most {
					b.Errorf("%s: looked %d times, want at most %d", name, n, most)
				}
			}
			for range keys/atOnce + 1 {
				try(6*atOnce + 1)
			}
			for range 100 {
				try(1)
			}
			ctx, cancel := context.WithCancel(context.Background())
			before := looks.Load()
			var full *gate.KeysError
			if _, err := k.Enter(ctx, -1, 1); !errors.As(err, &full) || looks.Load() > before+1 {
				b.Errorf("%s: %v after %d looks", name, err, looks.Load()-before)
			}
			cancel()
			for _, p := range passes {
				p.Leave(nil)
			}
		}
	})
}

// One key of thousands that can be forgotten is found by Enter, wherever it is.
func TestFullKeyedFindsTheOneThatIsIdle(t *testing.T) {
	keys := 500 + gate.Fewer(2500)
	for _, idle := range []int{0, keys / 2, keys - 1} {
		bubble.Mock(t, func(b *bubble.B) {
			k := gate.NewKeyed(func(int) gate.Gate {
				return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()})
			}, &gate.KeyedOptions{MaxKeys: keys, Idle: 100 * time.Hour, Clock: b.Clock()})
			for key := range keys {
				p, _ := k.TryEnter(key, 1)
				if key == idle {
					p.Settle(0)
				}
			}
			if _, err := k.Enter(context.Background(), -1, 1); err != nil || gate.Remembers(k, idle) {
				b.Errorf("%v, key %d remembered: %v", err, idle, gate.Remembers(k, idle))
			}
			// All are due at the same instant, and are used again by then, but for one.
			b.Advance(time.Hour)
			for key := range keys {
				if key != idle && key != (idle+7)%keys {
					k.TryEnter(key, 1)
				}
			}
			if _, err := k.Enter(context.Background(), -2, 1); err != nil {
				b.Error(err)
			}
		})
	}
}

// A context that ends while Enter looks for room is looked at.
func TestKeyedLooksAtTheContext(t *testing.T) {
	const keys = 1000
	var looks atomic.Int64
	_, cancel := context.WithCancelCause(context.Background())
	k := gate.NewKeyed(func(int) gate.Gate {
		return asked{gate.NewConcurrency(1), &looks, func() { cancel(errGone) }}
	}, &gate.KeyedOptions{MaxKeys: keys})
	for key := range keys {
		k.TryEnter(key, 1)
	}
	looks.Store(0)
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	cancel = stop
	_, err := k.Enter(ctx, -1, 1)
	if n := looks.Load(); err != errGone || n >= keys {
		t.Errorf("%v after %d looks, want the cause before all keys have been looked at", err, n)
	}
	if s := k.Stats(); s.Abandoned != 1 || s.Refused != 0 || s.NoRoom != 0 {
		t.Errorf("%+v, want 1 abandoned", s)
	}
}

// What is refused for want of room is told apart from what the limit refuses.
func TestNoRoom(t *testing.T) {
	k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{MaxKeys: 1})
	p, _ := k.TryEnter(1, 1)
	k.TryEnter(1, 1)
	k.TryEnter(2, 1)
	_, err := k.Enter(context.Background(), 2, 1)
	const want = "gate: Keyed: all MaxKeys of 1 are in use, there is no room for another key"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if s := k.Stats(); s.Refused != 3 || s.NoRoom != 2 {
		t.Errorf("%+v, want 3 refused, 2 of them for want of room", s)
	}
	if s, _ := gate.StatsOf(k.For(1)); s.Refused != 1 || s.NoRoom != 0 {
		t.Errorf("%+v, want 1 refused by the limit", s)
	}
	p.Leave(nil)
}

// A refused key costs no gate.
func TestNoGateWithoutRoom(t *testing.T) {
	made := 0
	k := gate.NewKeyed(func(int) gate.Gate { made++; return gate.NewConcurrency(1) }, &gate.KeyedOptions{MaxKeys: 1})
	p, _ := k.TryEnter(1, 1)
	k.TryEnter(2, 1)
	if made != 1 {
		t.Errorf("%d gates made, want 1", made)
	}
	p.Leave(nil)
}

// What makes keys idle while others look for room is never missed: when all have left, there is room.
func TestKeyedMissesNoEnd(t *testing.T) {
	const keys, rounds = 8, 30
	for name, make := range map[string]func(int) gate.Gate{
		"slots": func(int) gate.Gate { return gate.NewConcurrency(1) },
		"rates": func(int) gate.Gate { return gate.NewRate(pace.PerHour(1), nil) },
		"windows": func(int) gate.Gate {
			return gate.All(gate.NewWindow(1, time.Hour, nil), gate.NewRate(pace.PerHour(1), nil))
		},
	} {
		k := gate.NewKeyed(make, &gate.KeyedOptions{MaxKeys: keys})
		for round := range rounds {
			var ends, looks sync.WaitGroup
			var done atomic.Bool
			for range 2 {
				looks.Go(func() {
					for key := -1; !done.Load(); key-- {
						if p, ok := k.TryEnter(key, 1); ok {
							p.Settle(0)
							p.Leave(nil)
						}
						runtime.Gosched()
					}
				})
			}
			for key := range keys {
				ends.Go(func() {
					if p, ok := k.TryEnter(round*keys+key, 1); ok {
						p.Settle(0)
						p.Leave(nil)
					}
				})
			}
			ends.Wait()
			done.Store(true)
			looks.Wait()
			p, err := k.Enter(context.Background(), -1e9-round, 1)
			if err != nil {
				t.Fatalf("%s, round %d: %v", name, round, err)
			}
			p.Settle(0)
			p.Leave(nil)
		}
	}
}

// A key that was found in use, or busy until some instant, is found to be idle as soon as it is.
func TestKeyedIsToldOfTheEnd(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		room := func(name string, k *gate.Keyed[int], want bool) {
			b.Helper()
			p, ok := k.TryEnter(2, 1)
			if ok != want {
				b.Errorf("%s: another key let in %v, want %v", name, ok, want)
			}
			p.Leave(nil)
		}
		keyed := func(make func() gate.Gate) *gate.Keyed[int] {
			return gate.NewKeyed(func(int) gate.Gate { return make() },
				&gate.KeyedOptions{MaxKeys: 1, Idle: 1000 * time.Hour, Clock: b.Clock()})
		}

		k := keyed(func() gate.Gate { return gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()}) })
		k.TryEnter(1, 1)
		ctx, cancel := context.WithCancel(context.Background())
		q := newFates(b)
		q.enter(ctx, k.For(1), "waiting", 1)
		room("somebody waits", k, false)
		cancel()
		b.Advance(time.Hour - 1)
		room("a waiter has gone", k, false)
		b.Advance(1)
		room("a waiter has gone", k, true)

		k = keyed(func() gate.Gate { return telling{gate.NewConcurrency(1)} })
		p, _ := k.TryEnter(1, 1)
		b.Advance(10 * time.Hour)
		room("from elsewhere", k, false)
		b.Advance(10*time.Hour - 1)
		p.Leave(nil)
		room("from elsewhere, left", k, true)

		k = keyed(func() gate.Gate { return gate.NewAdaptive(pace.PerSecond(2), &gate.AdaptiveOptions{Clock: b.Clock()}) })
		p, _ = k.TryEnter(1, 1)
		p.Leave(gate.Throttled(0, errTooMany))
		room("throttled", k, false)
		for range 7 {
			b.Advance(2 * time.Second)
			p, _ = k.TryEnter(1, 1)
			p.Leave(nil)
		}
		room("back to speed", k, false)
		b.Advance(500 * ms)
		room("back to speed", k, true)
	})
}
