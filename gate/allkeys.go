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

// pinKeys pins the keys of the composite, and the keys that their gates have in turn, and adds them to t.
// If one finds no room, it returns the error; the caller unpins those before it by t.drop.
func (a *Composite) pinKeys(ctx context.Context, wait bool, t *keyPass) error {
	for _, k := range a.keys {
		for k != nil {
			e, err := k.pinKey(ctx, wait)
			if err != nil {
				return err
			}
			t.keys = append(t.keys, e)
			k = nil // unless the gate is that of a key, too
			switch g := e.theGate().(type) {
			case *Composite:
				if err := g.pinKeys(ctx, wait, t); err != nil {
					return err
				}
			case keyMember:
				k = g
			}
		}
	}
	return nil
}

// with returns the composite that has the gates of the keys for members. The caller has pinned the keys.
//
// The last one is kept, and is right until a key was forgotten and made again. Entries that find it out of
// date at the same time may each make one, which costs time and is otherwise the same.
func (a *Composite) with(keys []pinnedKey) *Composite {
	if j := a.joined.Load(); j != nil && slices.Equal(j.keys, keys) {
		return j.all
	}
	j := &joined{slices.Clone(keys), a.join(keys)}
	a.joined.Store(j)
	return j.all
}

// join makes such a composite. Gates from elsewhere, and those on another clock, are entered one after the
// other there. So they come in the order of their keys' numbers, whatever the order in which those were
// named: two entries can't wait for each other.
func (a *Composite) join(keys []pinnedKey) *Composite {
	g := &Composite{}
	g.add(a)
	g.keys = nil // their gates are added below
	keys = slices.Clone(keys)
	slices.SortStableFunc(keys, func(a, b pinnedKey) int { return cmp.Compare(a.born(), b.born()) })
	clk := a.hold.set.Clock()
	for _, e := range keys {
		of := e.theGate()
		var theirs *timing.Clock
		switch of := of.(type) {
		case keyMember:
			continue // it is pinned, too
		case *Composite:
			theirs = of.hold.set.Clock()
		case limited:
			theirs = of.part().clock()
		}
		if clk == nil {
			clk = theirs
		}
		if theirs != nil && !theirs.Same(clk) {
			g.outside = unionOutside(g.outside, []Gate{of})
			continue
		}
		g.add(of)
		g.keys = nil
	}
	g.init()
	return g
}

// enterKeys is Enter for a composite with keys. The keys stay pinned while the entry waits. If it is
// admitted, its pass unpins them; if not, drop does, also after a panic.
func (a *Composite) enterKeys(ctx context.Context, cost int) (Pass, error) {
	t := keyPasses.Get().(*keyPass)
	entered := false
	a.at.Add(1)
	defer func() {
		a.at.Add(-1)
		if !entered {
			t.drop()
		}
	}()
	err := a.pinKeys(ctx, true, t)
	var p Pass
	if err == nil {
		p, err = a.with(t.keys).Enter(ctx, cost)
	}
	switch {
	case err == nil:
		entered = true
		a.through.Add(1)
		return t.admitted(p, cost), nil
	case timing.Ended(ctx) != nil:
		a.hold.abandoned.Add(1)
	default:
		a.hold.refused.Add(1)
	}
	return Pass{}, err
}

// tryKeys is TryEnter for a composite with keys.
func (a *Composite) tryKeys(cost int) (Pass, bool) {
	t := keyPasses.Get().(*keyPass)
	entered := false
	defer func() {
		if !entered {
			t.drop()
		}
	}()
	if a.pinKeys(context.Background(), false, t) == nil {
		if p, ok := a.with(t.keys).TryEnter(cost); ok {
			entered = true
			a.through.Add(1)
			return t.admitted(p, cost), true
		}
	}
	a.hold.refused.Add(1)
	return Pass{}, false
}
