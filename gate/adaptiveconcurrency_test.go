package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// take enters n times, or fails.
func take(b *bubble.B, g gate.Gate, n int) (passes []gate.Pass) {
	b.Helper()
	for range n {
		p, ok := g.TryEnter(1)
		if !ok {
			b.Fatalf("refused after %d of %d", len(passes), n)
		}
		passes = append(passes, p)
	}
	return passes
}

// all leaves the passes.
func all(passes []gate.Pass, err error) {
	for _, p := range passes {
		p.Leave(err)
	}
}

// A burst of refusals halves the limit once, and waiters are admitted only when the slots in use have come down
// to the new limit.
func TestAdaptiveConcurrencyHalves(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(16, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		passes := take(b, g, 16)
		q := newFates(b)
		q.enter(context.Background(), g, "a", 1)
		q.enter(context.Background(), g, "b", 1)
		for i, want := range []int{8, 8, 8, 8, 8, 8, 8, 8} {
			b.Advance(time.Second)
			passes[i].Leave(fmt.Errorf("call: %w", gate.Throttled(0, errTooMany)))
			if got := g.Limit(); got != want {
				b.Fatalf("limit %d after %d refusals, want %d", got, i+1, want)
			}
		}
		q.want()
		b.Advance(time.Second)
		passes[8].Leave(nil)
		b.Settle()
		q.want("a: 9s")
		b.Advance(time.Second)
		passes[9].Leave(errGone)
		b.Settle()
		q.want("b: 10s")
		if s := g.Stats(); s.InUse != 8 || s.Waiting != 0 || s.Granted != 18 || s.Idle {
			b.Errorf("%+v", s)
		}
	})
}

// The limit comes back by one round trip after the other, and never exceeds n.
func TestAdaptiveConcurrencyComesBack(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(16, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		passes := take(b, g, 16)
		passes[0].Leave(gate.Throttled(0, errTooMany))
		all(passes[1:], nil)
		var limits []int
		for range 6 {
			limits = append(limits, g.Limit())
			all(take(b, g, g.Limit()), nil)
		}
		if got := fmt.Sprint(limits); got != "[8 12 14 15 16 16]" {
			b.Errorf("limits %v", got)
		}
	})
}

// The limit does not grow while entries leave slots free.
func TestAdaptiveConcurrencyDoesNotGrowUnused(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(16, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		passes := take(b, g, 16)
		passes[0].Leave(gate.Throttled(0, errTooMany))
		all(passes[1:], nil)
		for range 1000 {
			all(take(b, g, 7), nil)
		}
		if got := g.Limit(); got != 8 {
			b.Errorf("limit %d, want 8", got)
		}
	})
}

// What each error of the work means.
func TestAdaptiveConcurrencyErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"nil":              {nil, 4},
		"another":          {errGone, 4},
		"canceled":         {ctx.Err(), 4},
		"too late":         {&gate.DeadlineError{Wait: time.Second}, 4},
		"throttled":        {gate.Throttled(0, nil), 2},
		"wrapped":          {fmt.Errorf("call: %w", gate.Throttled(0, nil)), 2},
		"deadline":         {context.DeadlineExceeded, 2},
		"wrapped deadline": {fmt.Errorf("call: %w", context.DeadlineExceeded), 2},
		"file":             {os.ErrDeadlineExceeded, 2},
		"network":          {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, 2},
		"name":             {&net.DNSError{IsTimeout: true}, 2},
		"no such name":     {&net.DNSError{}, 4},
		"nil throttle":     {(*gate.ThrottledError)(nil), 4},
	} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
			passes := take(b, g, 4)
			passes[3].Leave(c.err)
			if got := g.Limit(); got != c.want {
				b.Errorf("%s: limit %d, want %d", name, got, c.want)
			}
			if got := g.Stats().InUse; got != 3 {
				b.Errorf("%s: %d slots in use, want 3", name, got)
			}
		})
	}
}

// An entry that takes longer than the ceiling counts as refused, one that takes as long does not.
func TestAdaptiveConcurrencyCeiling(t *testing.T) {
	for after, want := range map[time.Duration]int{
		0: 4, 999 * ms: 4, time.Second: 4, 1002 * ms: 2, time.Hour: 2,
	} {
		bubble.Both(t, func(b *bubble.B) {
			b.Advance(123456789)
			g := gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Latency: time.Second, Clock: b.Clock()})
			passes := take(b, g, 4)
			b.Advance(after)
			passes[1].Leave(nil)
			if got := g.Limit(); got != want {
				b.Errorf("limit %d after an entry of %v, want %d", got, after, want)
			}
		})
	}
}

// A Retry-After holds all entries, from any generation, and the hold is foreseen.
func TestAdaptiveConcurrencyHolds(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		passes := take(b, g, 3)
		passes[0].Leave(gate.Throttled(time.Second, errTooMany))
		passes[1].Leave(gate.Throttled(3*time.Second, errTooMany))
		passes[2].Leave(gate.Throttled(2*time.Second, errTooMany))
		if s := g.Stats(); s.HeldFor != 3*time.Second || g.Limit() != 1 {
			b.Errorf("held for %v at %d, want 3s at 1", s.HeldFor, g.Limit())
		}
		q := newFates(b)
		ctx, cancel := b.WithTimeout(2 * time.Second)
		defer cancel()
		q.enter(ctx, g, "hasty", 1)
		q.enter(context.Background(), g, "patient", 1)
		q.enter(ctx, g, "hasty, too", 1)
		b.Advance(time.Minute)
		const hopeless = ": gate: the wait of 3s would outlast the context's deadline at 0s"
		q.want("hasty"+hopeless, "hasty, too"+hopeless, "patient: 3s")

		g.Hold(time.Second)
		g.Hold(time.Millisecond)
		g.Hold(-time.Hour)
		if got := g.Stats().HeldFor; got != time.Second {
			b.Errorf("held for %v, want 1s", got)
		}
	})
}

// A refusal that comes whatever the number of entries is noise, once that is known: its Retry-After holds no entry.
func TestAdaptiveConcurrencyNoise(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(20, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		held, calls := 0, 0
		for range 200 {
			passes := take(b, g, g.Limit())
			b.Advance(time.Second)
			for _, p := range passes {
				if calls++; calls%20 == 0 {
					p.Leave(gate.Throttled(time.Second, errTooMany))
				} else {
					p.Leave(nil)
				}
			}
			if d := g.Stats().HeldFor; d > 0 {
				held++
				b.Advance(d)
			}
		}
		if held > 10 || g.Limit() < 15 {
			b.Errorf("held %d times, limit %d", held, g.Limit())
		}
	})
}

// Resume ends a hold for all waiters that have room, and leaves the limit as it is.
func TestAdaptiveConcurrencyResumes(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		passes := take(b, g, 4)
		passes[0].Leave(gate.Throttled(time.Hour, errTooMany))
		all(passes[1:], nil)
		q := newFates(b)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, name := range []string{"a", "b", "c"} {
			q.enter(ctx, g, name, 1)
		}
		b.Advance(time.Second)
		q.want()
		g.Resume()
		b.Settle()
		q.want("a: 1s", "b: 1s")
		if s := g.Stats(); s.HeldFor != 0 || g.Limit() != 2 {
			b.Errorf("held for %v at limit %d, want 0 at 2", s.HeldFor, g.Limit())
		}
		b.Advance(time.Second)
		g.Resume()
		q.want()
		g.Hold(time.Second)
		if got := g.Stats().HeldFor; got != time.Second {
			b.Errorf("held for %v, want 1s", got)
		}
	})
}

// An entry that costs more than the limit waits until no other is in flight, and keeps later ones back meanwhile.
func TestAdaptiveConcurrencyHeavy(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(8, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		passes := take(b, g, 8)
		passes[0].Leave(gate.Throttled(0, errTooMany))
		all(passes[1:6], nil)
		q := newFates(b)
		var heavy gate.Pass
		go func() { heavy, _ = g.Enter(context.Background(), 7) }()
		b.Settle()
		q.enter(context.Background(), g, "light", 1)
		for _, p := range passes[6:] {
			if s := g.Stats(); s.Waiting != 2 {
				b.Fatalf("%+v", s)
			}
			b.Advance(time.Second)
			p.Leave(nil)
			b.Settle()
		}
		if s := g.Stats(); s.InUse != 7 || s.Waiting != 1 {
			b.Errorf("%d slots in use and %d waiters at limit %d, want 7 and 1", s.InUse, s.Waiting, g.Limit())
		}
		q.want()
		b.Advance(time.Second)
		heavy.Leave(nil)
		b.Settle()
		q.want("light: 3s")
		var c *gate.CapacityError
		if _, err := g.Enter(context.Background(), 9); !errors.As(err, &c) || c.Capacity != 8 || c.Cost != 9 {
			b.Errorf("cost 9: %v", err)
		}
	})
}

// What was learned is there until the last nanosecond of an hour after the last word, and then gone.
func TestAdaptiveConcurrencyFades(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(8, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		passes := take(b, g, 8)
		passes[0].Leave(gate.Throttled(0, errTooMany))
		b.Advance(100 * time.Hour)
		if got := g.Limit(); got != 4 {
			b.Errorf("limit %d while slots are in use, want 4", got)
		}
		all(passes[1:], errGone)
		b.Advance(time.Hour - 1)
		if got := g.Limit(); got != 4 || g.Stats().Idle {
			b.Errorf("limit %d a nanosecond before, idle: %v", got, g.Stats().Idle)
		}
		b.Advance(1)
		if got := g.Limit(); got != 8 || !g.Stats().Idle {
			b.Errorf("limit %d after an hour, idle: %v", got, g.Stats().Idle)
		}

		passes = take(b, g, 8)
		passes[0].Leave(gate.Throttled(2*time.Hour, errTooMany))
		all(passes[1:], nil)
		b.Advance(3*time.Hour - 1)
		if got := g.Limit(); got != 4 {
			b.Errorf("limit %d an hour after the hold less a nanosecond, want 4", got)
		}
		b.Advance(1)
		if got := g.Limit(); got != 8 {
			b.Errorf("limit %d an hour after the hold, want 8", got)
		}

		passes = take(b, g, 8)
		passes[0].Leave(gate.Throttled(0, errTooMany))
		g.Reset()
		if got := g.Limit(); got != 8 {
			b.Errorf("limit %d after Reset, want 8", got)
		}
		passes[1].Leave(gate.Throttled(0, errTooMany)) // of a generation that is forgotten
		if got := g.Limit(); got != 8 {
			b.Errorf("limit %d, want 8", got)
		}
	})
}

// An old success, or a small load long ago, is not held against a gate that was never refused: it is as good as new.
func TestAdaptiveConcurrencyFresh(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.NewAdaptiveConcurrency(8, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		for range 100 {
			all(take(b, g, 8), nil)
			b.Advance(time.Second)
			if !g.Stats().Idle {
				b.Fatalf("%+v", g.Stats())
			}
		}
		twin := gate.NewAdaptiveConcurrency(8, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		for _, g := range []*gate.AdaptiveConcurrency{g, twin} {
			take(b, g, 6)[0].Leave(gate.Throttled(0, errTooMany))
			if got := g.Limit(); got != 3 {
				b.Errorf("limit %d, want 3", got)
			}
		}
	})
}

// A key with an AdaptiveConcurrency of its own is kept until that has forgotten, and is then made anew.
func TestAdaptiveConcurrencyOfKeys(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		made := 0
		var last *gate.AdaptiveConcurrency
		k := gate.NewKeyed(func(int) gate.Gate {
			made++
			last = gate.NewAdaptiveConcurrency(2, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
			return last
		}, &gate.KeyedOptions{MaxKeys: 1, Idle: time.Second, Clock: b.Clock()})
		p, _ := k.TryEnter(1, 1)
		b.Advance(time.Minute)
		if _, ok := k.TryEnter(2, 1); ok {
			b.Error("a key with a slot in use was forgotten")
		}
		p.Leave(gate.Throttled(0, errTooMany))
		b.Advance(time.Hour - 1)
		if _, ok := k.TryEnter(2, 1); ok {
			b.Error("a key was forgotten before its gate forgot")
		}
		b.Advance(1)
		q, ok := k.TryEnter(2, 1)
		if !ok || made != 2 {
			b.Fatalf("let in %v, %d made", ok, made)
		}
		q.Leave(nil)
		b.Advance(time.Second)
		r, ok := k.TryEnter(3, 1)
		if !ok {
			b.Fatal("a key that was never refused was kept")
		}
		r.Leave(nil)

		// The gate of a key knows of entries and holds that come in another way.
		p, _ = last.TryEnter(1)
		b.Advance(time.Minute)
		if _, ok := k.TryEnter(4, 1); ok {
			b.Error("a key whose gate is in use was forgotten")
		}
		last.Hold(10 * time.Second)
		p.Leave(nil)
		b.Advance(10*time.Second - 1)
		if _, ok := k.TryEnter(4, 1); ok {
			b.Error("a key whose gate is held was forgotten")
		}
		b.Advance(1)
		if _, ok := k.TryEnter(4, 1); !ok {
			b.Error("a key was kept after the hold of its gate")
		}
	})
}

// In an All, a refusal slows down all entries before the slots of its entry are free at other members.
func TestAdaptiveConcurrencyInAll(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		a := gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		g := gate.All(gate.NewConcurrency(4), a, gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Burst: 10, Clock: b.Clock()}))
		passes := take(b, g, 4)
		q := newFates(b)
		q.enter(context.Background(), g, "a", 1)
		passes[0].Leave(gate.Throttled(time.Second, errTooMany))
		passes[1].Leave(nil)
		b.Settle()
		q.want()
		b.Advance(time.Second)
		q.want()
		passes[2].Leave(nil)
		b.Settle()
		q.want("a: 1s")
		if got := a.Limit(); got != 2 {
			b.Errorf("limit %d, want 2", got)
		}
		passes[3].Settle(3)
		if got := a.Stats().InUse; got != 4 {
			b.Errorf("%d slots in use, want 4", got)
		}
		passes[2].Settle(3) // after Leave: its slots are free already
		if got := a.Stats().InUse; got != 4 {
			b.Errorf("%d slots in use after a late Settle, want 4", got)
		}
		passes[3].Leave(nil)
	})
}

// The refusal comes before the slot of another member is free: the waiter for that slot finds the new limit.
func TestAdaptiveConcurrencyLearnsFirst(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		a := gate.NewAdaptiveConcurrency(4, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		g := gate.All(gate.NewConcurrency(3), a)
		passes := take(b, g, 3)
		q := newFates(b)
		q.enter(context.Background(), g, "a", 1)
		passes[0].Leave(gate.Throttled(0, errTooMany))
		b.Settle()
		q.want()
		if s := a.Stats(); s.InUse != 2 || a.Limit() != 1 {
			b.Errorf("%d slots in use at limit %d, want 2 at 1", s.InUse, a.Limit())
		}
		all(passes[1:], nil)
		b.Settle()
		q.want("a: 0s")
	})
}

// Options beyond their bounds panic, and those at their bounds do not.
func TestNewAdaptiveConcurrency(t *testing.T) {
	type options = gate.AdaptiveConcurrencyOptions
	for _, c := range []struct {
		n    int
		o    options
		want string
	}{
		{0, options{}, fmt.Sprintf("gate: NewAdaptiveConcurrency: n must be at least 1 and at most %d, got 0", int64(1<<40))},
		{4, options{Least: -1}, "gate: NewAdaptiveConcurrency: Least must not be negative, got -1"},
		{4, options{Least: 5}, "gate: NewAdaptiveConcurrency: Least must be at most n, which is 4, got 5"},
		{4, options{Backoff: 1}, "gate: NewAdaptiveConcurrency: Backoff must be above 1, got 1"},
		{4, options{Backoff: math.NaN()}, "gate: NewAdaptiveConcurrency: Backoff must be above 1, got NaN"},
		{4, options{Backoff: 2e9}, "gate: NewAdaptiveConcurrency: Backoff must be at most 1e9, got 2e+09"},
		{4, options{Latency: -1}, "gate: NewAdaptiveConcurrency: Latency must not be negative, got -1ns"},
		{4, options{Least: 4, Backoff: 1e9, Latency: 1}, ""},
	} {
		if got := panics(func() { gate.NewAdaptiveConcurrency(c.n, &c.o) }); got != c.want {
			t.Errorf("%d, %+v: %q, want %q", c.n, c.o, got, c.want)
		}
	}
	g := gate.NewAdaptiveConcurrency(8, &options{Least: 3, Backoff: 4})
	for _, want := range []int{3, 3} {
		p, _ := g.TryEnter(8)
		p.Leave(gate.Throttled(0, nil))
		if got := g.Limit(); got != want {
			t.Errorf("limit %d, want %d", got, want)
		}
	}
}

// Callers that race: never more are in flight than the limit was at any instant of the entry, and none is lost.
func TestAdaptiveConcurrencyRaces(t *testing.T) {
	const callers, each = 8, 2000
	g := gate.NewAdaptiveConcurrency(5, nil)
	var all sync.WaitGroup
	var flying, most atomic.Int64
	for i := range callers {
		all.Go(func() {
			for j := range each {
				p, err := g.Enter(context.Background(), 1+j%2)
				if err != nil {
					t.Error(err)
					return
				}
				n := flying.Add(int64(1 + j%2))
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				flying.Add(-int64(1 + j%2))
				if (i+j)%50 == 0 {
					p.Leave(gate.Throttled(0, nil))
				} else {
					p.Leave(nil)
				}
			}
		})
	}
	all.Wait()
	if s := g.Stats(); most.Load() > 5 || s.InUse != 0 || s.Granted != callers*each || s.Waiting != 0 {
		t.Errorf("up to %d slots in use; %+v", most.Load(), s)
	}
}
