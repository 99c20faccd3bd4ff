package observe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/pace"
)

// door is a gate from elsewhere that takes its time, and then refuses while it is shut.
type door struct {
	b    *bubble.B
	shut bool
}

func (d *door) Enter(context.Context, int) (gate.Pass, error) {
	if !d.shut {
		return gate.Pass{}, nil
	}
	d.b.Sleep(time.Second)
	return gate.Pass{}, errors.New("shut")
}

func (d *door) TryEnter(int) (gate.Pass, bool) { return gate.Pass{}, !d.shut }

// An entry that a rate has admitted is taken back, because a gate from elsewhere refuses it. A snapshot that was
// taken in between has counted it. No count falls after that, and no entry is counted twice.
func TestCountsOfEntriesTakenBack(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var set observe.Set
		d := &door{b: b}
		rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		keyed := gate.NewKeyed(func(string) gate.Gate { return gate.All(rate, d) }, &gate.KeyedOptions{Clock: b.Clock()})
		set.AddGate(rate)
		observe.AddKeyed(&set, keyed, 1)
		enter := func() {
			go keyed.Enter(context.Background(), "a", 1)
			b.Advance(time.Second)
		}
		for range 5 {
			enter()
		}
		set.Snapshot()
		rate.TryEnter(1)
		d.shut = true
		enter() // it has waited for the rate, and is at the door
		before := set.Snapshot()
		b.Advance(time.Hour)
		after := set.Snapshot()
		if was, is := before.Gates[0].Stats, after.Gates[0].Stats; is.Granted < was.Granted || is.Waited < was.Waited {
			b.Errorf("the gate: %+v, before %+v", is, was)
		}
		was, is := before.Keyed[0].Top[0].Stats, after.Keyed[0].Top[0].Stats
		if is.Granted != 5 || is.Refused != 1 || is.Waited < was.Waited || is.WaitedInVain != time.Second {
			b.Errorf("the key: %+v, before %+v", is, was)
		}
		if sum := after.Keyed[0].Sum; sum.Granted != 5 || sum.Waited < before.Keyed[0].Sum.Waited {
			b.Errorf("the sum: %+v, before %+v", sum, before.Keyed[0].Sum)
		}
		d.shut = false
		for range 5 {
			enter()
		}
		if s := set.Snapshot(); s.Keyed[0].Top[0].Stats.Granted != 10 || s.Keyed[0].Rest.Granted != 0 || s.Gates[0].Stats.Granted != 11 {
			b.Errorf("in the end: %+v", s)
		}
	})
}
