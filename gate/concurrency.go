package gate

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// Concurrency is a gate for entries in flight: their costs add up to at most n. Use it for what is limited by
// how much is in use at a time, such as connections or memory.
//
// Every pass must be left, or its slots are lost. Slots are granted in order of arrival, so light entries
// don't starve a heavy one. SetLimit resizes the gate.
//
// An entry that finds free slots takes no lock and allocates nothing. Nor does leaving when no entry waits.
// Make one with [NewConcurrency]; the zero value does not work.
type Concurrency struct{ l *slotLimit }

// slotLimit is a Concurrency as its queue sees it.
//
// While slotsFrozen is clear, entries take slots by a compare-and-swap of the word, without the lock. The bit
// is set while an entry waits, or a goroutine has the lock. Then entries need the lock to take slots, but not
// to give them back.
//
// The word and the ticket have a cache line each. So processors that race for the word do not also wait for what
// entries write besides.
type slotLimit struct {
	word atomic.Int64 // the free slots and, in its lowest bits, what is listed below
	size atomic.Int64 // slots in all; written under the lock
	_    [48]byte
	own  ticket // in use while its bit in the word is set
	_    [16]byte
	owed total // slots that are missing beyond those of the word; guarded by the lock
	single
}

// The word, from its lowest bit on:
//
//   - slotsFrozen: entries need the lock.
//   - slotTicket is set while a pass has the gate's own ticket. That one costs nothing. One from the pool takes as
//     long as the rest of Enter.
//   - A count of the entries that took no lock. When it reaches slotsSpent, entries need the lock. Freeze then
//     adds it to the statistics, and resets it.
//   - From slotShift on, the number of free slots. It can be negative after SetLimit or Settle. What it can't hold,
//     because thousands of entries were settled at huge costs, is owed. Until that is paid, slotsFrozen stays set.
const (
	slotsFrozen = 1
	slotTicket  = 2
	slotsPassed = 4 // one of the count
	slotsSpent  = 1 << (slotShift - 1)
	slotShift   = 12

	slotsCounted = slotsSpent<<1 - slotsPassed // the bits of the count
)

// maxSlots is the largest size, and the highest cost after a Settle. Both fit into the word with room to
// spare.
const maxSlots = 1 << 40

const (
	maxMissing = 1 << 50 // as many slots may be missing in the word; it has room for twice as many
	fewSlots   = 1 << 30 // as many may come back without the lock: the word can hold that of a million callers at once
)

// NewConcurrency returns a gate for n slots, all of them free. It panics if n is less than 1 or above 2^40.
func NewConcurrency(n int) *Concurrency {
	checkSlots("NewConcurrency", n)
	l := &slotLimit{}
	l.size.Store(int64(n))
	l.add(int64(n))
	l.init(l, nil, kind{name: "concurrency", answers: true, keeps: true})
	return &Concurrency{l}
}

// checkSlots panics on a number of slots that no Concurrency can have. name is the function, for the panic.
func checkSlots(name string, n int) {
	if n < 1 || int64(n) > maxSlots {
		panic(fmt.Sprintf("gate: %s: n must be at least 1 and at most %d, got %d", name, int64(maxSlots), n))
	}
}

// limit returns the Concurrency as its queue sees it. It panics on the zero value.
func (g *Concurrency) limit() *slotLimit {
	if g.l == nil {
		panicOnZero()
	}
	return g.l
}

// Enter is described at [Gate]. A cost above the number of slots is a *[CapacityError]. There is never a
// *[DeadlineError]: it is not known when a slot will be free, so an entry waits until its deadline.
func (g *Concurrency) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Concurrency.Enter", ctx, cost)
	l := g.limit()
	if timing.Closed(ctx.Done()) {
		return Pass{}, l.ended(ctx, cost)
	}
	ticket, ok, _ := l.pass(cost)
	if !ok {
		if _, err := l.enter(ctx, cost); err != nil {
			return Pass{}, err
		}
	}
	return l.track(g, l.ticket(ticket, cost), cost), nil
}

// TryEnter is described at [Gate].
func (g *Concurrency) TryEnter(cost int) (Pass, bool) {
	checkCost("Concurrency.TryEnter", cost)
	l := g.limit()
	ticket, ok, locked := l.pass(cost)
	switch {
	case ok:
	case locked:
		if _, ok := l.tryEnter(cost); !ok {
			return Pass{}, false
		}
	default:
		l.refuse(cost)
		return Pass{}, false
	}
	return l.track(g, l.ticket(ticket, cost), cost), true
}

// pass takes slots without the lock, if they are free. With them it takes the gate's own ticket and returns its bit, or
// 0 if that is in use. ok reports whether it took slots. If not, locked reports whether the caller must ask under the
// lock.
func (l *slotLimit) pass(cost int) (ticket int64, ok, locked bool) {
	for {
		word := l.word.Load()
		locked := word&(slotsFrozen|slotsSpent) != 0
		if locked || word>>slotShift < int64(cost) {
			return 0, false, locked
		}
		ticket := ^word & slotTicket
		if l.word.CompareAndSwap(word, word-int64(cost)<<slotShift+slotsPassed+ticket) {
			return ticket, true, false
		}
		stepAside()
	}
}

// ticket returns the pass of an entry. bit is that of the gate's own ticket if the entry has taken it; 0 means a ticket
// from the pool. The claim's mark keeps the bit, so that leave frees it with the slots.
func (l *slotLimit) ticket(bit int64, cost int) Pass {
	c := queue.Claim{Cost: cost, Mark: uint64(bit)}
	if bit == 0 {
		return newTicket(l, c)
	}
	return l.own.issue(l, c)
}

// add gives slots back, or takes them if slots is negative. It changes no other bit of the word.
func (l *slotLimit) add(slots int64) { l.word.Add(slots << slotShift) }

// free returns the number of free slots. If it is negative, that many slots must come back before one is free. The
// lock is held.
func (l *slotLimit) free() int64 {
	const most = 1 << 61
	if l.owed.above(total{low: most}) {
		return -most
	}
	return l.word.Load()>>slotShift - int64(l.owed.low)
}

// balance moves slots between the word and owed, so that the word never overflows. It is called under the lock, while
// slotsFrozen is set: meanwhile slots can only come back.
func (l *slotLimit) balance() {
	switch free := l.word.Load() >> slotShift; {
	case free < -maxMissing:
		l.owed = l.owed.more(total{low: uint64(-free)})
		l.add(-free)
	case free > 0 && l.owed != total{}:
		paid := total{low: uint64(free)}
		if paid.above(l.owed) {
			paid = l.owed
		}
		l.owed = l.owed.less(paid)
		l.add(-int64(paid.low))
	}
}

// SetLimit changes the number of slots, at once and for all waiters. If more than n are in use, no entry is
// admitted until enough slots have come back. A waiter with a cost above n gets a *[CapacityError]. SetLimit panics
// if n is less than 1 or above 2^40.
func (g *Concurrency) SetLimit(n int) {
	checkSlots("Concurrency.SetLimit", n)
	l := g.limit()
	l.Change(func(int64) queue.Effect {
		l.add(int64(n) - l.size.Swap(int64(n)))
		return queue.Later
	})
	l.replanned()
}

// Stats returns the statistics of the gate at this instant.
func (g *Concurrency) Stats() Stats { return g.limit().Stats() }

func (l *slotLimit) Stats() (s Stats) {
	l.View(func(now int64) {
		s = l.stats(now, 0)
		used := l.size.Load() - l.free()
		s.InUse = int(min(used, math.MaxInt))
		s.Left, _ = l.present(now)
		s.Idle = used == 0 && s.Waiting == 0
	})
	return s
}

func (l *slotLimit) describe() string { return fmt.Sprintf("a Concurrency of %d", l.size.Load()) }

func (g *Concurrency) member() member { return g.limit() }
func (g *Concurrency) part() part     { return g.limit() }

// restsAt returns now or unknown: it is not known when slots come back.
func (l *slotLimit) restsAt(now int64) int64 {
	if l.Stats().Idle {
		return now
	}
	return unknown
}

// Freeze sets slotsFrozen, so that entries take the lock, and counts those that have passed without it. If an
// entry races with it, one of the two repeats its compare-and-swap.
func (l *slotLimit) Freeze() {
	word := l.word.Load()
	for !l.word.CompareAndSwap(word, word&^slotsCounted|slotsFrozen) {
		word = l.word.Load()
	}
	l.AddGranted(uint64(word & slotsCounted / slotsPassed))
}

// Thaw lets entries pass without the lock again, unless slots are owed. The queue calls it when no entry is parked
// there.
func (l *slotLimit) Thaw(int64) {
	if l.owed == (total{}) {
		l.word.And(^slotsFrozen)
	}
}

func (l *slotLimit) Capacity() int { return int(l.size.Load()) }

func (l *slotLimit) Due(_, since int64, _ uint64, cost int) int64 {
	if l.free() < int64(cost) {
		return never
	}
	return since
}

// leftMark is the mark of an entry that has left: it takes no slots any more.
const leftMark = math.MaxUint64

// Take returns no mark: a ticket remembers the cost. Between Due and Take, slots may come back, but no entry
// takes any.
func (l *slotLimit) Take(_, _ int64, cost int) (mark uint64) {
	l.add(-slots(cost))
	return 0
}

func (l *slotLimit) Settle(_ int64, mark uint64, cost, actual int) queue.Effect {
	if mark == leftMark {
		return queue.None
	}
	l.add(slots(cost) - slots(actual))
	l.balance()
	return queue.Sooner // also if fewer are free: no wait is estimated from slots
}

func (l *slotLimit) Undo(now int64, mark uint64, cost int) queue.Effect {
	return l.Settle(now, mark, cost, 0)
}

// leave gives slots back by a single addition. That also clears the bit of the gate's own ticket, if the mark
// is one.
//
// It takes the lock only if slotsFrozen was set: entries may wait for these slots, or slots are owed. If Freeze comes
// after the addition, its caller finds the slots free. Very many slots come back under the lock alone.
func (l *slotLimit) leave(c queue.Claim, _ error) (mark uint64) {
	back := slots(c.Cost)
	if back <= fewSlots {
		if l.word.Add(back<<slotShift-int64(c.Mark))&slotsFrozen == 0 {
			return leftMark
		}
		back, c.Mark = 0, 0
	}
	l.Change(func(int64) queue.Effect {
		l.word.Add(back<<slotShift - int64(c.Mark))
		l.balance()
		return queue.Sooner
	})
	return leftMark
}

// slots returns the slots that a cost takes. It bounds a cost given by mistake, so that the word can hold it.
func slots(cost int) int64 { return min(int64(cost), maxSlots) }
