package gate

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/timing"
)

// Concurrency is a gate for at most n entries in flight, or fewer that cost more: a
// weighted semaphore that can be resized and that is fair. Unlike the other gates it
// must be left, or its slots are gone.
//
// It gives slots in order of arrival, so a heavy entry is not starved by light ones that
// would fit. Entering when a slot is free, and leaving when nobody waits, takes no lock
// and allocates nothing. Make one with [NewConcurrency]; the zero value does not work.
type Concurrency struct {
	word atomic.Int64 // free slots · 2, plus 1 if somebody waits; the sum can be below zero
	size atomic.Int64 // slots in all; written under the domain's lock
	n    node
}

// locked is the bit of the word that sends everyone to the lock.
const locked = 1

// maxSlots is the largest size.
const maxSlots = math.MaxInt64 >> 2

// NewConcurrency returns a gate for n slots, all of them free. It panics if n is less
// than 1.
func NewConcurrency(n int) *Concurrency {
	checkSlots("NewConcurrency", n)
	g := &Concurrency{}
	g.size.Store(int64(n))
	g.word.Store(int64(n) << 1)
	g.n.init(g.member(), nil)
	return g
}

func checkSlots(name string, n int) {
	if n < 1 || int64(n) > maxSlots {
		panic(fmt.Sprintf("gate: %s: n must be at least 1 and at most %d, got %d", name, int64(maxSlots), n))
	}
}

// Enter is described at [Gate]. A cost above the number of slots is a *[CapacityError].
// When a slot will be free is not known, so a deadline is waited for.
func (g *Concurrency) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Concurrency.Enter", ctx, cost)
	if err := timing.Ended(ctx); err != nil {
		g.n.lane.abandoned.Add(1)
		return Pass{}, err
	}
	if taken, _ := g.pick(cost); !taken {
		if _, err := g.n.lane.enter(ctx, cost, nil); err != nil {
			return Pass{}, err
		}
	}
	return g.pass(cost), nil
}

// TryEnter is described at [Gate].
func (g *Concurrency) TryEnter(cost int) (Pass, bool) {
	checkCost("Concurrency.TryEnter", cost)
	taken, sure := g.pick(cost)
	if !taken && !sure {
		_, taken = g.n.lane.tryEnter(cost, nil)
	}
	if !taken {
		g.n.lane.refused.Add(1)
		return Pass{}, false
	}
	return g.pass(cost), true
}

// pick tries to take slots without the lock, and reports whether it did and, if not,
// whether that is final.
func (g *Concurrency) pick(cost int) (taken, sure bool) {
	if int64(cost) > maxSlots {
		return false, false
	}
	for {
		word := g.word.Load()
		switch {
		case word&locked != 0:
			return false, false
		case word>>1 < int64(cost):
			return false, true
		case g.word.CompareAndSwap(word, word-int64(cost)<<1):
			g.n.granted.Add(1)
			return true, true
		}
	}
}

// free gives slots back, or takes them where there are none when slots is negative, and
// looks after those who wait.
func (g *Concurrency) free(slots int64) {
	if g.word.Add(slots<<1)&locked != 0 {
		d := g.n.lock()
		d.mark(g.n.self)
		d.unlock()
	}
}

// SetLimit changes the number of slots, at once. If more are taken than there are now,
// nobody enters until enough have left. Whoever waits with a cost above n gets a
// *[CapacityError]. It panics if n is less than 1.
func (g *Concurrency) SetLimit(n int) {
	checkSlots("Concurrency.SetLimit", n)
	g.n.change(func(int64) {
		g.word.Add((int64(n) - g.size.Swap(int64(n))) << 1)
	})
}

// Stats returns the statistics of the gate at this instant.
func (g *Concurrency) Stats() Stats {
	d := g.n.lock()
	defer d.unlock()
	g.n.lane.read(d)
	used := int(g.size.Load() - g.word.Load()>>1)
	return g.n.stats(0, used, 0, used == 0)
}

func (g *Concurrency) pass(cost int) Pass {
	t, _ := slots.Get().(*slot)
	if t == nil {
		t = new(slot)
	}
	t.gate, t.cost = g, cost
	return Pass{t, t.turn.Load(), cost}
}

// A slot is what a pass of a Concurrency goes back to. It is used over and over; the turn
// tells its passes apart, so that one which has been left already is found out.
type slot struct {
	turn atomic.Uint64
	gate *Concurrency
	cost int
}

var slots sync.Pool

func (t *slot) Leave(turn uint64, _ int, _ error) {
	if !t.turn.CompareAndSwap(turn, turn+1) {
		panic("gate: Pass.Leave: must be called once, got a second call")
	}
	g, cost := t.gate, t.cost
	t.gate = nil
	slots.Put(t)
	g.free(int64(cost))
}

func (t *slot) Settle(turn uint64, _, actual int) {
	if t.turn.Load() != turn {
		panic("gate: Pass.Settle: must be called before Leave, got a call after it")
	}
	cost := t.cost
	t.cost = actual
	t.gate.free(int64(cost - actual))
}

// slotMember is the Concurrency that its domain sees.
type slotMember Concurrency

func (g *Concurrency) member() member { return (*slotMember)(g) }

func (m *slotMember) Stats() Stats           { return (*Concurrency)(m).Stats() }
func (m *slotMember) node() *node            { return &m.n }
func (m *slotMember) sync()                  { m.word.Or(locked) }
func (m *slotMember) open(int64)             { m.word.And(^locked) }
func (m *slotMember) broken() error          { return nil }
func (m *slotMember) limit() int             { return int(m.size.Load()) }
func (m *slotMember) arrive(now int64) int64 { return now }
func (m *slotMember) due(now, _ int64, cost int) int64 {
	if m.word.Load()>>1 < int64(cost) {
		return never
	}
	return now
}
func (m *slotMember) plan(now, _ int64, _ uint64, _ int) int64 { return now }
func (m *slotMember) take(_, _ int64, cost int) uint64 {
	m.word.Add(-int64(cost) << 1)
	return 0
}
func (m *slotMember) leave(_ uint64, cost int, _ error) { (*Concurrency)(m).free(int64(cost)) }
func (m *slotMember) settle(_ uint64, cost, actual int) {
	(*Concurrency)(m).free(int64(cost - actual))
}
