package gate

import (
	"context"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// Key is the gate of one key of a [Keyed], as [Keyed.For] returns it. Use it where a [Gate] is asked for,
// such as a member of an [All]. It works like the gate that the Keyed has made for the key.
//
// A Key is a small value. Two for the same key of one Keyed are equal. It does not keep the key from being
// forgotten: when the Key is entered, the gate is made again.
type Key[K comparable] struct {
	k   *Keyed[K]
	key K
}

// Enter is [Keyed.Enter] with this key, with its errors and panics.
func (v Key[K]) Enter(ctx context.Context, cost int) (Pass, error) {
	return v.keyed().Enter(ctx, v.key, cost)
}

// TryEnter is [Keyed.TryEnter] with this key.
func (v Key[K]) TryEnter(cost int) (Pass, bool) { return v.keyed().TryEnter(v.key, cost) }

// Hold holds the gate of the key, see [Hold]. It does nothing if that gate can't be held, if there is no room for
// the key, or if d is not positive. While a gate of this package is held, its key is not forgotten.
func (v Key[K]) Hold(d time.Duration) {
	if d > 0 {
		v.holdBy(nil, d)
	}
}

// holdBy is Hold for the function holdBy. The clock of this Keyed comes before that of one around it. A hold of
// nothing remembers no key: it looks at a gate that is dropped.
func (v Key[K]) holdBy(_ *timing.Clock, d time.Duration) bool {
	if d <= 0 {
		if e, ok := v.keyed().keys.Load(v.key); ok {
			return holdBy(e.(*keyGate[K]).gate, nil, d)
		}
		return holdBy(v.k.newGate(v.key), nil, d)
	}
	e, err := v.keyed().pin(context.Background(), false, v.key)
	if err != nil {
		return false
	}
	defer e.unpin()
	return holdBy(e.gate, v.k.clk, d)
}

// Resume ends a hold of the gate of the key, see [Resume]. It does nothing if that gate has no Resume, or if there
// is no room for the key. Like Hold it makes the gate if the key is not remembered: the hold of a gate from
// elsewhere may be kept elsewhere, too.
func (v Key[K]) Resume() { v.resumed() }

// resumed is Resume for the function Resume.
func (v Key[K]) resumed() bool {
	e, err := v.keyed().pin(context.Background(), false, v.key)
	if err != nil {
		return false
	}
	defer e.tell(timed) // it may be idle sooner
	defer e.unpin()
	return Resume(e.gate)
}

// Stats returns the statistics of the key's gate. It makes no gate: a key that is not remembered is
// Idle, and its Left is not known.
func (v Key[K]) Stats() Stats {
	if e, ok := v.keyed().keys.Load(v.key); ok {
		s, _ := StatsOf(e.(*keyGate[K]).gate)
		return s
	}
	return Stats{Idle: true, Left: unknownLeft}
}

// These are described at compound.

func (v Key[K]) clock(*timing.Clock) *timing.Clock { return v.keyed().clk }
func (Key[K]) parts(func(part), func(Gate))        {}
func (v Key[K]) addTo(a *Composite, by func(inner []share) []share) {
	a.keys = joinOutside(a.keys, compound(v), by([]share{{}}))
}

// keyed returns the Keyed. It panics on the zero Key, which has none.
func (v Key[K]) keyed() *Keyed[K] {
	if v.k == nil {
		panicOnZero()
	}
	return v.k
}
