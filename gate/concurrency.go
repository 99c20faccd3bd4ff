package gate

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

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
	word  atomic.Int64 // free slots, which can be below zero; below them a count, and bits: see locked
	size  atomic.Int64 // slots in all; written under the domain's lock
	owed  int64        // guarded by the domain: slots taken that the word has no bits for; it is locked while there are any
	desks []desk       // where passes are given back, a power of two of them
	all   int64        // the bits of all desks
	shift uint         // 64 less the logarithm of their number
	n     node

	contest contest // for the word; far from it
}

// The lowest bit of the word, locked, sends everyone to the lock. Above it is a bit for each desk, set
// while a pass is out. The bits of counted are the number of entries that took no lock: when it gets to
// the highest of them, spent, one entry has to.
const (
	locked  = 1
	first   = 2
	single  = first << maxDesks
	spent   = 1 << (freeBits - 1)
	counted = 1<<freeBits - single
	// freeBits is where the free slots begin.
	freeBits = 20
)

// pick is what an attempt without the lock finds out.
type pick int

const (
	picked pick = iota // the entry is admitted
	full               // there is no room for it at this instant
	again              // another entry was faster
	busy               // the lock is needed
)

// maxSlots is the largest size, and the most that a pass can come to cost.
const maxSlots = 1 << 40

// maxDebt is how far below zero the free slots go in the word, with room for what is given back or
// taken by several passes before somebody balances it. Corrections from large on are balanced at once.
const (
	maxDebt = 1 << (62 - freeBits)
	large   = 1 << 20
)

// maxDesks is the largest number of desks that a gate has for itself.
const maxDesks = 8

// NewConcurrency returns a gate for n slots, all of them free. It panics if n is less
// than 1 or above 2^40.
func NewConcurrency(n int) *Concurrency {
	checkSlots("NewConcurrency", n)
	log := bits.Len(uint(2*min(n, maxDesks/2) - 1))
	g := &Concurrency{desks: make([]desk, 1<<log), all: first<<(1<<log) - first, shift: 64 - uint(log)}
	for i := range g.desks {
		g.desks[i].gate, g.desks[i].bit = g, first<<i
	}
	g.size.Store(int64(n))
	g.word.Store(int64(n) << freeBits)
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
	if timing.Closed(ctx.Done()) {
		g.n.lane.abandoned.Add(1)
		return Pass{}, context.Cause(ctx)
	}
	near := g.near()
	found := g.quick(first<<near, int64(cost))
	if found == picked {
		t := &g.desks[near]
		return Pass{t, t.turn.Load(), cost}, nil
	}
	found, desk := g.contend(found, cost)
	if found != picked {
		if _, err := g.n.lane.enter(ctx, cost, nil); err != nil {
			return Pass{}, err
		}
	}
	return g.pass(desk, cost), nil
}

// TryEnter is described at [Gate].
func (g *Concurrency) TryEnter(cost int) (Pass, bool) {
	checkCost("Concurrency.TryEnter", cost)
	near := g.near()
	found := g.quick(first<<near, int64(cost))
	if found == picked {
		t := &g.desks[near]
		return Pass{t, t.turn.Load(), cost}, true
	}
	found, desk := g.contend(found, cost)
	ok := found == picked
	if found == busy {
		_, ok = g.n.lane.tryEnter(cost, nil)
	}
	if !ok {
		g.n.lane.refused.Add(1)
		return Pass{}, false
	}
	return g.pass(desk, cost), true
}

// quick takes slots and a desk, where nothing is in the way: most entries are.
func (g *Concurrency) quick(desk, cost int64) pick {
	word := g.word.Load()
	if word&(locked|spent|desk) != 0 || word>>freeBits < cost {
		return busy
	}
	if g.word.CompareAndSwap(word, word-cost<<freeBits+single+desk) {
		return picked
	}
	return again
}

// contend takes slots without the lock, and a desk if there is one, as often as others are faster.
func (g *Concurrency) contend(found pick, cost int) (_ pick, desk int64) {
	for {
		if found == again {
			g.contest.lost()
		}
		word := g.word.Load()
		switch {
		case word&(locked|spent) != 0:
			return busy, 0
		case word>>freeBits < int64(cost):
			return full, 0
		}
		desk = g.desk(word)
		if g.word.CompareAndSwap(word, word-int64(cost)<<freeBits+single+desk) {
			return picked, desk
		}
		found = again
	}
}

// free gives slots back, or takes them where there are none when slots is negative, and a desk, and
// looks after those who wait.
func (g *Concurrency) free(slots, desk int64) {
	if g.word.Add(slots<<freeBits-desk)&locked != 0 {
		g.n.look()
	}
}

// correct is free for a pass that came to cost other than it took, which can be any number.
func (g *Concurrency) correct(slots, desk int64) {
	if -large < slots && slots < large {
		g.free(slots, desk)
		return
	}
	g.n.change(func(int64) {
		g.word.Add(slots<<freeBits - desk)
		g.balance()
	})
}

// balance moves slots between the word and owed, so that the word holds all debts or as many as it
// is made for. The word is locked.
func (g *Concurrency) balance() {
	if over := max(-maxDebt-g.word.Load()>>freeBits, -g.owed); over > 0 || g.owed > 0 {
		g.owed += over
		g.word.Add(over << freeBits)
	}
}

// SetLimit changes the number of slots, at once. If more are taken than there are now,
// nobody enters until enough have left. Whoever waits with a cost above n gets a
// *[CapacityError]. It panics if n is less than 1 or above 2^40.
func (g *Concurrency) SetLimit(n int) {
	checkSlots("Concurrency.SetLimit", n)
	g.n.change(func(int64) {
		g.word.Add((int64(n) - g.size.Swap(int64(n))) << freeBits)
	})
}

// Stats returns the statistics of the gate at this instant.
func (g *Concurrency) Stats() Stats {
	d := g.n.lock()
	defer d.unlock()
	g.n.lane.read(d)
	used := g.size.Load() - g.word.Load()>>freeBits + g.owed
	return g.n.stats(0, int(min(used, math.MaxInt)), 0, used == 0)
}

// A desk is what a pass of a Concurrency goes back to. It is used over and over, by one
// pass at a time; the turn tells them apart, so that one which has been left already is
// found out.
type desk struct {
	turn atomic.Uint64 // of the pass that is out, or of the next one
	gate *Concurrency
	bit  int64    // of the gate's word; 0: the desk belongs to no gate
	more int      // what the pass, settled, costs beyond what it says
	done bool     // it has been settled
	_    [24]byte // to a cache line each
}

// desks are for passes that have none of their gate's.
var desks = sync.Pool{New: func() any { return new(desk) }}

// near returns the number of the desk that an entry is to take if it is free. Goroutines are led to
// different ones, as far as they reach, and each to the same again: its processor has that desk at hand,
// where one in turn would be fetched from the other processor each time. What tells goroutines apart is
// where their stacks lie; that is a hint and nothing more.
func (g *Concurrency) near() uint64 {
	var here byte
	stack := uint64(uintptr(unsafe.Pointer(&here)) >> 11) // a stack has 2 KiB or more
	return stack * 0x9E3779B97F4A7C15 >> (g.shift & 63)
}

// desk returns the bit of a desk that is free, or 0.
func (g *Concurrency) desk(word int64) int64 {
	if bit := int64(first) << g.near(); word&bit == 0 {
		return bit
	}
	free := g.all &^ word
	return free & -free
}

// pass makes the pass of an entry with the desk of that bit. An entry that found all of them in use has
// none, nor has one that got in by the lock: then others do things to the word, and are better left alone.
func (g *Concurrency) pass(bit int64, cost int) Pass {
	if bit == 0 {
		t := desks.Get().(*desk)
		t.gate = g
		return Pass{t, t.turn.Load(), cost}
	}
	t := &g.desks[bits.TrailingZeros64(uint64(bit/first))]
	return Pass{t, t.turn.Load(), cost}
}

func (t *desk) Leave(turn uint64, cost int, _ error) {
	if t.turn.Load() == turn {
		g, bit, more := t.gate, t.bit, t.more
		if t.done {
			t.more, t.done = 0, false
		}
		if t.turn.CompareAndSwap(turn, turn+1) {
			if bit == 0 {
				t.gate = nil
				desks.Put(t)
			}
			if more != 0 {
				g.correct(int64(cost+more), bit)
			} else {
				g.free(int64(cost), bit)
			}
			return
		}
	}
	panic("gate: Pass.Leave: must be called once, got a second call")
}

func (t *desk) Settle(turn uint64, cost, actual int) {
	if t.turn.Load() != turn {
		panic("gate: Pass.Settle: must be called before Leave, got a call after it")
	}
	if t.done {
		panic(settledTwice)
	}
	t.done, t.more = true, int(charge(actual))-cost
	t.gate.correct(int64(-t.more), 0)
}

// charge returns the slots that a cost takes. One that is a mistake stays within the word.
func charge(cost int) int64 { return min(int64(cost), maxSlots) }

// slotMember is the Concurrency that its domain sees.
type slotMember Concurrency

func (g *Concurrency) member() member { return (*slotMember)(g) }

func (m *slotMember) Stats() Stats { return (*Concurrency)(m).Stats() }
func (m *slotMember) node() *node  { return &m.n }
func (m *slotMember) sync() {
	for {
		word := m.word.Load()
		if word&locked != 0 { // since it was last under the lock: somebody waits
			if m.owed > 0 {
				(*Concurrency)(m).balance()
			}
			return
		}
		if m.word.CompareAndSwap(word, word&^counted|locked) {
			m.n.granted.Add(uint64(word & counted / single))
			return
		}
	}
}
func (m *slotMember) open(int64) {
	if m.owed == 0 {
		m.word.And(^locked)
	}
}
func (m *slotMember) broken() error          { return nil }
func (m *slotMember) limit() int             { return int(m.size.Load()) }
func (m *slotMember) arrive(now int64) int64 { return now }
func (m *slotMember) due(now, _ int64, cost int) int64 {
	if m.word.Load()>>freeBits < int64(cost) {
		return never
	}
	return now
}
func (m *slotMember) plan(now int64, _ uint64, _, _ int) (least, latest int64) { return now, now }
func (m *slotMember) outlook(now int64) outlook                                { return &sumOutlook{m: m, now: now} }
func (m *slotMember) take(_, _ int64, cost int) uint64 {
	m.word.Add(-int64(cost) << freeBits)
	return 0
}
func (m *slotMember) woke(int64, int64)                 {}
func (m *slotMember) leave(_ uint64, cost int, _ error) { (*Concurrency)(m).correct(charge(cost), 0) }
func (m *slotMember) undo(now int64, mark uint64, cost int, _ int64) (later bool) {
	return m.settle(now, mark, cost, 0)
}
func (m *slotMember) settle(_ int64, _ uint64, cost, actual int) (later bool) {
	m.word.Add((charge(cost) - charge(actual)) << freeBits)
	(*Concurrency)(m).balance()
	return false // when there will be slots is not known
}
