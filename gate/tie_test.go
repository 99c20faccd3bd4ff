package gate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// arrivals enters gates one after the other, and notes the instants of the grants. The entries stay until the end.
type arrivals struct {
	b   *bubble.B
	ctx context.Context
	got grants
}

func (a arrivals) enter(name string, g gate.Gate, cost int) {
	go func() {
		p, err := g.Enter(a.ctx, cost)
		if err == nil {
			a.got <- grant{name, a.b.Now()}
			<-a.ctx.Done()
			p.Leave(nil)
		}
	}()
	a.b.Settle()
}

func enterInTurn(b *bubble.B, f func(arrivals)) []grant {
	ctx, cancel := context.WithCancel(context.Background())
	a := arrivals{b, ctx, make(grants, 9)}
	f(a)
	cancel()
	b.Settle()
	return a.got.sorted()
}

// Entries that are due at one instant are admitted in order of arrival, in whichever order their alarms ring. One of
// them was kept back by a hold until then, and the rate has a token for the other one alone.
func TestDueWithTheEndOfAHold(t *testing.T) {
	for _, again := range []bool{false, true} { // the alarm of the hold is set before the other one, or after it
		bubble.Both(t, func(b *bubble.B) {
			for range 20 {
				rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 10, Clock: b.Clock()})
				c := gate.All(rate)
				debt, _ := rate.TryEnter(10)
				debt.Settle(13) // it has one token in 400 ms
				start := b.Now()
				if again {
					c.Hold(150 * ms)
				} else {
					c.Hold(200 * ms)
				}
				all := enterInTurn(b, func(a arrivals) {
					a.enter("first", c, 3) // the hold has three tokens in 400 ms, and the rate in 600 ms
					a.enter("second", rate, 1)
					if again {
						c.Hold(200 * ms)
					}
					b.Advance(time.Second)
				})
				want := []grant{{"first", start + 600*ms}, {"second", start + 700*ms}}
				if !slices.Equal(all, want) {
					b.Fatalf("held again %v: admitted %v, want %v", again, all, want)
				}
			}
		})
	}
}

// Two holds end at one instant, and their composites share a slot: the entry that came first gets it.
func TestHoldsThatEndTogether(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		bubble.Both(t, func(b *bubble.B) {
			for range 20 {
				slots := gate.NewConcurrency(1)
				var held [2]*gate.Composite
				for i := range held {
					held[i] = gate.All(gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}), slots)
				}
				held[0].Hold(50 * ms)
				held[1].Hold(50 * ms)
				end := b.Now() + 100*ms
				all := enterInTurn(b, func(a arrivals) {
					a.enter("first", held[0], 1)
					a.enter("second", held[1], 1)
					if swapped { // the order in which their alarms are set
						slices.Reverse(held[:])
					}
					held[0].Hold(100 * ms)
					held[1].Hold(100 * ms)
					b.Advance(time.Second)
				})
				if want := []grant{{"first", end}}; !slices.Equal(all, want) {
					b.Fatalf("swapped %v: admitted %v, want %v", swapped, all, want)
				}
			}
		})
	}
}

// deafClock is a mock with alarms that never ring.
type deafClock struct{ *clock.Mock }

func (c deafClock) AfterFunc(_ time.Duration, f func()) *clock.Timer {
	return c.Mock.AfterFunc(1000*time.Hour, f)
}

// While alarms are late, an entry that is due comes before later ones all the same: before a newcomer, and before a
// waiter that gets a slot when another entry leaves. These want another gate than the late alarm is for.
func TestDueBeforeItsAlarm(t *testing.T) {
	bubble.Mock(t, func(b *bubble.B) {
		clk := deafClock{b.Clock().(*clock.Mock)}
		fast := func() *gate.Rate { return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: clk}) }

		older, slots, rate := gate.NewConcurrency(1), gate.NewConcurrency(2), fast()
		both, other := gate.All(rate, slots), gate.All(slots, fast())
		used, _ := slots.TryEnter(1)
		rate.TryEnter(1)
		all := enterInTurn(b, func(a arrivals) {
			a.enter("first", both, 1)
			gate.All(older, slots) // their locks become one
			b.Advance(100 * ms)
			if _, ok := other.TryEnter(1); ok {
				b.Error("a newcomer has the slot of an entry that is due")
			}
			b.Settle()

			a.enter("second", both, 1) // due in 100 ms
			a.enter("third", slots, 1)
			b.Advance(100 * ms)
			used.Leave(nil)
			b.Settle()
		})
		want := []grant{{"first", 100 * ms}, {"second", 200 * ms}}
		if !slices.Equal(all, want) {
			b.Errorf("admitted %v, want %v", all, want)
		}
	})
}

// After a hold, entries that pass by the gates that it is for do not want the same as those that do not: the gate of a
// key admits them as if there had been no hold, also before earlier ones that wait for the pace of the others.
func TestKeyAloneAfterAHold(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 20, Clock: b.Clock()})
		k := gate.NewKeyed(func(int) gate.Gate { return gate.All(rate) }, &gate.KeyedOptions{Clock: b.Clock()})
		c := gate.All(rate, k.For(1))
		c.Hold(250 * ms)
		got := make(grants, 2)
		enter := func(name string, costs ...int) {
			go func() {
				c.EnterEach(context.Background(), costs...)
				got <- grant{name, b.Now()}
			}()
			b.Settle()
		}
		enter("both", 1, 8) // one token at the end of the hold, and the eighth 700 ms later
		enter("key", 0, 1)
		b.Advance(time.Second)
		if all, want := got.sorted(), []grant{{"key", 250 * ms}, {"both", 950 * ms}}; !slices.Equal(all, want) {
			b.Errorf("admitted %v, want %v", all, want)
		}
		b.Advance(time.Hour)
	})
}
