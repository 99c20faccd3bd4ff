package gate

import (
	"cmp"
	"context"
	"slices"

	"github.com/escapement-go/escapement/internal/timing"
)

// joined is a composite together with the gates of its keys.
//
// Which gates these are is only known when an entry comes. So the entry pins all keys first, which takes no
// waiting. Then it enters the composite of the members proper and the gates of the keys. It holds nothing
// while it waits for one of them. So the order in which keys are named can't matter, nor whether their
// gates have members in common.
//
// It never changes once it is stored, so entries use it without a lock.
type joined struct {
	keys []pinnedKey // whose gates these were
	all  *Composite
}

// pinKeys pins the keys that an entry with these costs wants, and the keys that their gates have in turn, and
// adds them to t. If one finds no room, it returns the error; the caller unpins those before it by t.drop.
func (a *Composite) pinKeys(ctx context.Context, wait bool, c costs, t *keyPass) error {
	for i := range a.keys {
		if cost(&a.keys[i], c) == 0 {
			continue
		}
		for k := a.keys[i].to; k != nil; {
			e, err := k.pinKey(ctx, wait)
			if err != nil {
				return err
			}
			t.keys = append(t.keys, e)
			k = nil // unless the gate is that of a key, too
			of, theirs := unview(e.theGate())
			switch g := of.(type) {
			case *Composite:
				if err := g.pinKeys(ctx, wait, costsOf(theirs), t); err != nil {
					return err
				}
			case keyMember:
				k = g
			}
		}
	}
	return nil
}

// costsOf returns what an entry costs at a gate that was named by a view with these costs: which of them are
// 0, and no more.
func costsOf(view []int) costs {
	if len(view) > 1 {
		return costs{each: view}
	}
	return costs{all: 1}
}

// with returns the composite that has the gates of the keys for members. The caller has pinned the keys that
// an entry with these costs wants.
//
// The last one is kept, and is right until a key was forgotten and made again. Entries that find it out of
// date at the same time may each make one, which costs time and is otherwise the same.
func (a *Composite) with(keys []pinnedKey, c costs) *Composite {
	if j := a.joined.Load(); j != nil && slices.Equal(j.keys, keys) {
		return j.all
	}
	j := &joined{slices.Clone(keys), a.join(keys, c)}
	a.joined.Store(j)
	return j.all
}

// join makes such a composite. Gates from elsewhere, and those on another clock, are entered one after the
// other there. So they come in the order of their keys' numbers, whatever the order in which those were
// named: two entries can't wait for each other.
func (a *Composite) join(keys []pinnedKey, c costs) *Composite {
	g := &Composite{sides: a.sides}
	g.setup()
	same := func(by []share) []share { return by }
	g.addBy(a, same)
	g.keys = nil // their gates are added below
	gates, _ := a.gatesOf(nil, keys, c, same)
	slices.SortStableFunc(gates, func(a, b keyedGate) int { return cmp.Compare(a.born, b.born) })
	clk := a.hold.set.Clock()
	for _, k := range gates {
		var theirs *timing.Clock
		switch of := k.of.(type) {
		case *Composite:
			theirs = of.hold.set.Clock()
		case limited:
			theirs = of.part().clock()
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
	return g
}

// keyedGate is the gate of a key, and how its limits are reached; see addBy.
type keyedGate struct {
	of   Gate
	by   func(inner []share) []share
	born uint64 // the number of the key
}

// gatesOf adds the gates of the keys to all. The keys are in the order of pinKeys; it returns those that
// are not of this composite. by is how the composite's limits are reached.
func (a *Composite) gatesOf(all []keyedGate, keys []pinnedKey, c costs, by func([]share) []share) ([]keyedGate, []pinnedKey) {
	for i := range a.keys {
		if cost(&a.keys[i], c) == 0 {
			continue
		}
		ways := by(a.keys[i].by)
		for more := true; more; {
			of, theirs := unview(keys[0].theGate())
			here := ways
			under := func(inner []share) []share { return below(here, theirs, inner) }
			born := keys[0].born()
			keys, more = keys[1:], false
			switch g := of.(type) {
			case keyMember: // the next one is pinned for it
				ways, more = under([]share{{}}), true
				continue
			case *Composite:
				all, keys = g.gatesOf(all, keys, costsOf(theirs), under)
			}
			all = append(all, keyedGate{of, under, born})
		}
	}
	return all, keys
}

// enterKeys is Enter for a composite with keys. The keys stay pinned while the entry waits. If it is
// admitted, its pass unpins them; if not, drop does, also after a panic.
func (a *Composite) enterKeys(ctx context.Context, c costs) (Pass, error) {
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
		p, err = a.with(t.keys, c).enter(ctx, c)
	}
	switch {
	case err == nil:
		entered = true
		a.through.Add(1)
		return t.admitted(p, c.all), nil
	case timing.Ended(ctx) != nil:
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
