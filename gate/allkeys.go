package gate

import (
	"cmp"
	"context"
	"slices"

	"github.com/escapement-go/escapement/internal/timing"
)

// joined is a composite together with the gates of its keys.
//
// Which gates these are is only known when an entry comes. So the entry pins all keys first, which
// takes no waiting, and then enters the composite of the members proper and the gates of the keys.
// It holds nothing while it waits for one of them. So the order in which keys are named can't matter, nor
// whether their gates have members in common.
type joined struct {
	keys []pinnedKey // whose gates these were
	all  *all
}

// pinKeys adds the keys of the composite to those that t pins, and the keys that their gates have in turn.
func (a *all) pinKeys(ctx context.Context, wait bool, t *keyPass) error {
	for _, k := range a.keys {
		for k != nil {
			e, err := k.pinKey(ctx, wait)
			if err != nil {
				return err
			}
			t.keys = append(t.keys, e)
			k = nil
			switch g := e.theGate().(type) {
			case *all:
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

// with returns the composite that has the gates of the keys for members. It is made once for the same keys.
func (a *all) with(keys []pinnedKey) *all {
	if j := a.joined.Load(); j != nil && slices.Equal(j.keys, keys) {
		return j.all
	}
	j := &joined{slices.Clone(keys), a.join(keys)}
	a.joined.Store(j)
	return j.all
}

// join makes such a composite. Gates from elsewhere, and those on another clock, are entered one after
// the other there. So they come in the order of their keys' numbers, whatever the order in which
// those were named.
func (a *all) join(keys []pinnedKey) *all {
	g := &all{inside: slices.Clone(a.inside), latches: slices.Clone(a.latches), outside: slices.Clone(a.outside)}
	keys = slices.Clone(keys)
	slices.SortStableFunc(keys, func(a, b pinnedKey) int { return cmp.Compare(a.number(), b.number()) })
	clk := a.clock()
	for _, e := range keys {
		theirs := clk
		of := e.theGate()
		switch of := of.(type) {
		case *all:
			theirs = of.clock()
		case interface{ member() member }:
			theirs = of.member().node().clk
		}
		if clk == nil {
			clk = theirs
		}
		switch of := of.(type) {
		case keyMember:
		case *all:
			if theirs == nil || theirs.Same(clk) {
				g.inside = union(g.inside, of.inside)
				g.latches = union(g.latches, of.latches)
				g.outside = unionOutside(g.outside, of.outside)
				continue
			}
			g.outside = unionOutside(g.outside, []Gate{of})
		case interface{ member() member }:
			if theirs == nil || theirs.Same(clk) {
				g.inside = union(g.inside, []member{of.member()})
				continue
			}
			g.outside = unionOutside(g.outside, []Gate{e.theGate()})
		default:
			g.outside = unionOutside(g.outside, []Gate{e.theGate()})
		}
	}
	g.init()
	return g
}

// clock returns the clock of the members, or nil if time does not matter to any.
func (a *all) clock() *timing.Clock {
	d := a.lane().lock()
	defer d.mu.Unlock()
	a.lane().timed()
	return a.lane().clk
}

// enterKeys is Enter for a composite with keys.
func (a *all) enterKeys(ctx context.Context, cost int) (Pass, error) {
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
		a.lane().abandoned.Add(1)
	default:
		a.lane().refused.Add(1)
	}
	return Pass{}, err
}

// tryKeys is TryEnter for a composite with keys.
func (a *all) tryKeys(cost int) (Pass, bool) {
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
	a.lane().refused.Add(1)
	return Pass{}, false
}
