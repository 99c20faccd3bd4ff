package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// An entry that is admitted through an All counts at each All on its way, however often that is named. If it passes a
// gate by, or is refused, it does not count there.
func TestAdmittedEntriesCountAtNestedComposites(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 10, Clock: b.Clock()})
		closed := gate.NewConcurrency(1)
		inner := gate.All(rate)
		middle := gate.All(gate.Each(inner), inner, closed)
		outer := gate.All(middle, inner, gate.NewConcurrency(9))
		check := func(when string, want ...uint64) {
			b.Helper()
			for i, g := range []*gate.Composite{inner, middle, outer} {
				if got := g.Stats().Granted; got != want[i] {
					b.Errorf("%s: All %d has granted %d, want %d", when, i, got, want[i])
				}
			}
		}
		pass, ok := outer.TryEnter(1)
		check("one entry", 1, 1, 1)
		if _, again := outer.TryEnter(1); !ok || again {
			b.Fatalf("admitted: %v, %v, want the first alone", ok, again)
		}
		check("one refused", 1, 1, 1)
		pass.Leave(nil)
		outer.TryEnterEach(0, 1, 1)
		check("one that passes the second by", 2, 1, 2)
		outer.TryEnterEach(0, 0, 1)
		check("one that passes both by", 2, 1, 3)
		inner.TryEnter(1)
		check("one of its own", 3, 1, 3)
	})
}

// A key with a composite counts the entries of each All that has the key as a member, also after it was forgotten. So
// the busiest keys come first, whichever way their entries come.
func TestAdmittedEntriesCountAtKeysWithComposites(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		shared := gate.NewConcurrency(100)
		tenants := gate.NewKeyed(func(string) gate.Gate {
			return gate.All(gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 9, Clock: b.Clock()}), shared)
		}, &gate.KeyedOptions{Idle: time.Minute, Clock: b.Clock()})
		for key, entries := range map[string]int{"ann": 1, "bob": 3} {
			route := gate.All(tenants.For(key), gate.NewWindow(50, time.Second, &gate.WindowOptions{Clock: b.Clock()}))
			for range entries {
				pass, ok := route.TryEnter(1)
				if !ok {
					b.Fatal("refused")
				}
				pass.Leave(nil)
			}
		}
		for key, g := range tenants.All() {
			if s, _ := gate.StatsOf(g); key != "bob" || s.Granted != 3 {
				b.Errorf("the busiest is %s with %d entries, want bob with 3", key, s.Granted)
			}
			break
		}
		if got := tenants.Stats().Granted; got != 4 {
			b.Errorf("%d granted, want 4", got)
		}
		b.Advance(3 * time.Minute)
		if got := tenants.Stats().Granted; got != 4 || tenants.Len() != 0 {
			b.Errorf("%d granted after %d keys are left, want 4 and 0", got, tenants.Len())
		}
	})
}

// An entry at an All with keys counts as what its caller is told, also if its context ends just then.
func TestRefusalAsTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	tenants := gate.NewKeyed(func(string) gate.Gate {
		cancel()
		return gate.NewConcurrency(1)
	}, nil)
	all := gate.All(tenants.For("ann"), gate.NewConcurrency(9))
	_, err := all.Enter(ctx, 2)
	refused := errors.As(err, new(*gate.CapacityError))
	if s := all.Stats(); s.Refused+s.Abandoned != 1 || (s.Refused == 1) != refused {
		t.Errorf("%v counts as %d refused and %d abandoned", err, s.Refused, s.Abandoned)
	}
}
