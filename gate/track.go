package gate

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Tracking says what a gate keeps of the passes that were not left; see [Track].
type Tracking int

const (
	TrackNone  Tracking = iota // nothing
	TrackTime                  // when each was admitted
	TrackStack                 // that, and the stack of its caller
)

// Track makes the gate keep its passes until they are left, for [Explain] to list the oldest. Use it to find a
// Leave that is missing. It is a setting for debugging: an entry then takes one more lock and some allocations, and
// with TrackStack some microseconds. Without it, an entry pays for a check.
//
// It applies to entries that come from now on at g itself. Where entries come through an [All], track that. TrackNone
// drops what was kept.
//
// Track reports whether g keeps passes. A [Rate], and a [Window] without UntilAnswer, keep none, because their passes
// need not be left. Nor do a [Key] and gates from elsewhere. Given a view, it tracks the gate that is viewed.
func Track(g Gate, t Tracking) bool {
	of, _ := unview(g)
	n, ok := native(of).(noted)
	if !ok || !keepsPasses(n) {
		return false
	}
	n.noted().set(func(k *notes) {
		switch {
		case t == TrackNone:
			k.open = nil
		case k.open == nil:
			k.open = &openPasses{all: map[*openPass]struct{}{}}
			fallthrough
		default:
			k.open.stacks.Store(t == TrackStack)
		}
	})
	return true
}

// keepsPasses reports whether the passes of a gate have to be left.
func keepsPasses(n noted) bool {
	if _, ok := n.(*Composite); ok {
		return true
	}
	return n.kind().keeps
}

// openPasses are the passes of a gate that were not left.
type openPasses struct {
	stacks atomic.Bool
	mu     sync.Mutex
	all    map[*openPass]struct{}
}

// openPass is the Keeper of a pass that is kept: it passes on what it is told.
type openPass struct {
	in    *openPasses
	pass  Pass
	cost  int
	since int64
	stack []uintptr
}

// track keeps p, if the gate keeps its passes, and returns the pass for the caller.
func (c *counts) track(g Gate, p Pass, cost int) Pass {
	k := c.notes.Load()
	if k == nil || k.open == nil {
		return p
	}
	return k.open.keep(g, p, cost)
}

func (o *openPasses) keep(g Gate, p Pass, cost int) Pass {
	t := &openPass{in: o, pass: p, cost: cost, since: clockOf(g).Now()}
	if o.stacks.Load() {
		var pcs [32]uintptr
		t.stack = slices.Clone(pcs[:runtime.Callers(3, pcs[:])])
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all[t] = struct{}{}
	return Pass{t, p.id, p.cost}
}

// Leave leaves the pass, and forgets it even if that panics.
func (t *openPass) Leave(_ uint64, _ int, err error) {
	t.in.mu.Lock()
	delete(t.in.all, t)
	t.in.mu.Unlock()
	t.pass.Leave(err)
}

func (t *openPass) Settle(_ uint64, _, actual int)           { t.pass.Settle(actual) }
func (t *openPass) SettleEach(_ uint64, _ int, actual []int) { t.pass.SettleEach(actual...) }

// shown is how many open passes an explanation has.
const shown = 10

// oldest returns the oldest open passes of g, if it keeps them.
func (c *counts) oldest(g Gate) (all []OpenPass) {
	k := c.notes.Load()
	if k == nil || k.open == nil {
		return nil
	}
	k.open.mu.Lock()
	open := slices.Collect(maps.Keys(k.open.all))
	k.open.mu.Unlock()
	slices.SortFunc(open, func(a, b *openPass) int { return cmp.Compare(a.since, b.since) })
	clk := clockOf(g)
	now := clk.Now()
	for _, t := range open[:min(len(open), shown)] {
		all = append(all, OpenPass{Cost: t.cost, Since: clk.Time(t.since), Age: time.Duration(now - t.since), Where: where(t.stack)})
	}
	return all
}

// where returns a stack from the first function on that is not of this package, one frame a line.
func where(stack []uintptr) string {
	var lines []string
	frames := runtime.CallersFrames(stack)
	for len(stack) > 0 {
		f, more := frames.Next()
		if len(lines) > 0 || !strings.HasPrefix(f.Function, here+".") {
			lines = append(lines, fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line))
		}
		if !more {
			break
		}
	}
	return strings.Join(lines, "\n")
}

// tracked returns the pass that the gate itself has made.
func (p Pass) tracked() Pass {
	if t, ok := p.keeper.(*openPass); ok {
		return t.pass
	}
	return p
}
