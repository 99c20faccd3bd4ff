package gate

import (
	"cmp"
	"context"
	"slices"

	"github.com/escapement-go/escapement/internal/timing"
)

// joined is a composite with keys, with the gates of these keys in their place.
//
// Which gates these are is known only when an entry comes. The entry first pins all keys, without waiting. Then
// it enters all, which has the other members and the gates of the keys. It is charged nothing while it waits
// for one of them. So the order of keys does not matter, nor does it matter if their gates share members.
//
// A joined never changes once it is stored, so entries use it without a lock.
type joined struct {
	keys []pinnedKey // the keys; all has their gates
	all  *Composite
}

// pinKeys pins the keys that an entry with these costs wants, and the keys that their gates have in turn. It
// adds them to t. If there is no room for one, it returns the error. The caller unpins the others by t.drop.
func (a *Composite) pinKeys(ctx context.Context, wait bool, c costs, t *keyPass) error {
	for i := range a.keys {
		if cost(&a.keys[i], c) == 0 {
			continue
		}
		// A Key has no use for the costs. Given to a method of an interface, c would have to be allocated.
		if err := a.keys[i].to.pinKeys(ctx, wait, costs{}, t); err != nil {
			return err
		}
	}
	return nil
}

func (v Key[K]) pinKeys(ctx context.Context, wait bool, _ costs, t *keyPass) error {
	e, err := v.keyed().pin(ctx, wait, v.key)
	if err != nil {
		return err
	}
	t.keys = append(t.keys, e)
	of, theirs := named(e.gate)
	if g, ok := of.(compound); ok && native(of) != nil {
		return g.pinKeys(ctx, wait, costsOf(theirs), t)
	}
	return nil
}

// costsOf returns costs for pinKeys and gatesOf, at a gate that was named by a view. Only which of them are 0
// matters there.
func costsOf(view []int) costs {
	if len(view) > 1 {
		return costs{each: view}
	}
	return costs{all: 1}
}

// with returns the composite that has the gates of the keys for members. The caller has pinned the keys that
// an entry with these costs wants.
//
// It keeps the last one, and makes another if a key was forgotten and made again. Entries that race may each
// make one: that only costs time.
func (a *Composite) with(keys []pinnedKey, c costs) *Composite {
	if j := a.joined.Load(); j != nil && slices.Equal(j.keys, keys) {
		return j.all
	}
	j := &joined{slices.Clone(keys), a.join(keys, c)}
	a.joined.Store(j)
	return j.all
}

// join makes the composite that with returns. Gates from elsewhere, and those on another clock, are entered one
// after the other there. They are in the order of their keys' numbers, however the keys were named. So two
// entries can't wait for each other.
func (a *Composite) join(keys []pinnedKey, c costs) *Composite {
	g := &Composite{sides: a.sides, stands: a}
	g.setup()
	same := func(by []share) []share { return by }
	g.addBy(a, same)
	g.keys = nil // their gates are added below
	gates, _ := a.gatesOf(nil, keys, c, same)
	slices.SortStableFunc(gates, func(a, b keyedGate) int { return cmp.Compare(a.born, b.born) })
	clk := a.clock(nil)
	for _, k := range gates {
		var theirs *timing.Clock
		switch in := native(k.of).(type) {
		case compound:
			theirs = in.clock(clk)
		case limited:
			theirs = in.part().clock()
		}
		if clk == nil {
			clk = theirs
		}
		if theirs != nil && !theirs.Same(clk) {
			g.outside = joinOutside(g.outside, k.of, k.by([]share{{}}))
			continue
		}
		g.addBy(k.of, k.by)
		g.keys = nil
	}
	g.init()
	g.views = g.views || a.views // also of keys that this entry passes by
	return g
}

// keyedGate is the gate of a key, and how its limits are reached; see addBy.
type keyedGate struct {
	of   Gate
	by   func(inner []share) []share
	born uint64 // the number of the key
}

// gatesOf adds the gates of this composite's keys to all, and returns the keys that are left. The keys are in
// the order of pinKeys. by turns ways from this composite into ways from the one that is entered; see addBy.
func (a *Composite) gatesOf(all []keyedGate, keys []pinnedKey, c costs, by func([]share) []share) ([]keyedGate, []pinnedKey) {
	for i := range a.keys {
		if cost(&a.keys[i], c) > 0 {
			all, keys = gatesOfKey(all, keys, by(a.keys[i].by))
		}
	}
	return all, keys
}

// gatesOfKey is gatesOf for the first of the keys, which is reached in these ways.
func gatesOfKey(all []keyedGate, keys []pinnedKey, ways []share) ([]keyedGate, []pinnedKey) {
	k, keys := keys[0], keys[1:]
	of, theirs := named(k.theGate())
	under := func(inner []share) []share { return below(ways, theirs, inner) }
	if g, ok := native(of).(compound); ok {
		return g.addGates(all, keys, costsOf(theirs), under, k.born())
	}
	return append(all, keyedGate{of, under, k.born()}), keys
}

func (a *Composite) addGates(all []keyedGate, keys []pinnedKey, c costs, by func([]share) []share, born uint64) ([]keyedGate, []pinnedKey) {
	all, keys = a.gatesOf(all, keys, c, by)
	return append(all, keyedGate{a, by, born}), keys
}

// addGates adds the gate of this key alone. It is the next one that was pinned.
func (Key[K]) addGates(all []keyedGate, keys []pinnedKey, _ costs, by func([]share) []share, _ uint64) ([]keyedGate, []pinnedKey) {
	return gatesOfKey(all, keys, by([]share{{}}))
}

// enterKeys is Enter for a composite with keys. The keys stay pinned while the entry waits. If the entry is
// admitted, its pass unpins them. Otherwise, also after a panic, drop does.
func (a *Composite) enterKeys(ctx context.Context, c costs, e *entering) (Pass, error) {
	t := keyPasses.Get().(*keyPass)
	entered := false
	a.at.Add(1)
	defer func() {
		a.at.Add(-1)
		if !entered {
			t.drop()
		}
	}()
	err := a.pinKeys(ctx, true, c, t)
	var p Pass
	if err == nil {
		p, err = a.with(t.keys, c).enter(ctx, c, e)
	} else if _, full := err.(*KeysError); full {
		e.kind = EventRefused
	} else {
		e.kind = EventAbandoned
	}
	// What counts is the error that the caller gets: the context may have ended since.
	switch {
	case err == nil:
		entered = true
		a.through.Add(1)
		return t.admitted(p, c.all), nil
	case e.kind == EventAbandoned:
		a.hold.abandoned.Add(1)
	default:
		a.hold.refused.Add(1)
	}
	return Pass{}, err
}

// tryKeys is TryEnter for a composite with keys.
func (a *Composite) tryKeys(c costs) (Pass, bool) {
	t := keyPasses.Get().(*keyPass)
	entered := false
	defer func() {
		if !entered {
			t.drop()
		}
	}()
	if a.pinKeys(context.Background(), false, c, t) == nil {
		if p, ok := a.with(t.keys, c).tryEnter(c); ok {
			entered = true
			a.through.Add(1)
			return t.admitted(p, c.all), true
		}
	}
	a.hold.refused.Add(1)
	return Pass{}, false
}
