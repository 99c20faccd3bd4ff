package gate

import (
	"math"
	"runtime"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/timing"
)

// windowLog is what a Window remembers: one run for each entry, numbered in order, each
// with its instant and the sum of all tokens until then. What still counts is the
// difference of two such sums, so nothing has to be added up.
//
// While it is open, entries append to it without a lock: whoever moves the state on from
// run k has got run k, writes it, and publishes it by its number. Everything that was read
// before the move stood still until then, because whatever could have changed it would
// have changed the state: another entry its number, the lock its epoch. All methods but
// take want the log closed, under the domain's lock.
type windowLog struct {
	state atomic.Uint64 // number of the next run, epoch above it, and the top bit: closed
	gone  atomic.Uint32 // runs before this one no longer count; it only moves on, see below
	runs  []run         // a power of two long; holds the last run that no longer counts, and all that do
}

// Without the lock, gone is moved by those alone who have appended a run, and after they have
// written it: that run has tokens as long as they have not returned, so whoever trims empty runs
// under the lock stops there, and gone never gets ahead of what is to come. So it can be behind, and a
// place is used again only where what was read of gone before says that it is free: whoever closes
// the log reads the same or more, and looks for no run that has been written over.

// run is what one entry has used. tag is the entry's number plus one once it has been
// written; the other fields belong to it then. Numbers wrap around: a place in the log is
// used again long before its number comes back.
type run struct {
	tag atomic.Uint32
	at  atomic.Int64
	sum atomic.Uint64 // tokens of this run and all before it; wraps around
}

const (
	shut  = 1 << 63
	epoch = 1 << 32
)

// newWindowLog returns a log that is closed, with a run of nothing long ago.
func newWindowLog(size int) *windowLog {
	l := &windowLog{runs: make([]run, size)}
	for i := range l.runs {
		l.runs[i].tag.Store(uint32(i)) // not written: it is the tag of numbers that have another place
	}
	l.runs[0].tag.Store(1)
	l.state.Store(1 | shut)
	l.gone.Store(1)
	return l
}

func (l *windowLog) run(number uint32) *run { return &l.runs[number&uint32(len(l.runs)-1)] }

// pick is what an attempt without the lock finds out.
type pick int

const (
	picked pick = iota // the entry has gone
	full               // there is no room for it at this instant
	again              // somebody else was faster
	busy               // the lock is needed
)

// take appends an entry, if together with those of the last span it is not more than most.
// The clock is read after the log was, so that no instant in the log, and none by which
// somebody else found runs to be gone, is later.
func (l *windowLog) take(clk *timing.Clock, span int64, most, cost int) (number uint32, _ pick) {
	state := l.state.Load()
	gone := l.gone.Load()
	if state&shut != 0 || cost > most {
		return 0, busy
	}
	now := clk.Now()
	next := uint32(state)
	last := l.run(next - 1)
	if last.tag.Load() != next {
		return 0, busy // whoever has got it is about to write it
	}
	first := gone
	for ; first != next; first++ {
		r := l.run(first)
		at := r.at.Load()
		if r.tag.Load() != first+1 {
			return 0, again
		}
		if at > now-span {
			break
		}
	}
	before := l.run(first - 1)
	sum := last.sum.Load()
	used := int64(sum - before.sum.Load())
	if before.tag.Load() != first {
		return 0, again
	}
	if used > int64(most-cost) {
		if l.state.Load() != state {
			return 0, again
		}
		if first != gone {
			return 0, busy // for gone to be moved on, so that the next one need not look at them all again
		}
		return 0, full
	}
	if int(next-gone)+1 >= len(l.runs) {
		return 0, busy // it must grow, or gone be moved on
	}
	if !l.state.CompareAndSwap(state, state+1) {
		return 0, again
	}
	l.write(next, now, sum+uint64(cost))
	if first != gone {
		l.gone.CompareAndSwap(gone, first)
	}
	return next, picked
}

func (l *windowLog) write(number uint32, at int64, sum uint64) {
	r := l.run(number)
	r.at.Store(at)
	r.sum.Store(sum)
	r.tag.Store(number + 1)
}

// close keeps entries from appending without the lock.
func (l *windowLog) close() { l.state.Or(shut) }

// open lets them, in a new epoch.
func (l *windowLog) open() {
	if state := l.state.Load(); state&shut != 0 {
		l.state.Store((state + epoch) &^ shut)
	}
}

// bounds returns the number of the first run that may count and that of the next to come.
func (l *windowLog) bounds() (first, next uint32) {
	return l.gone.Load(), uint32(l.state.Load())
}

// read returns a run that has been appended. Whoever appended it without the lock may be
// about to write it: that takes a few instructions.
func (l *windowLog) read(number uint32) (at int64, sum uint64) {
	r := l.run(number)
	for r.tag.Load() != number+1 {
		runtime.Gosched()
	}
	return r.at.Load(), r.sum.Load()
}

// expire forgets the runs that do not count any more, and returns the number of the first
// that does. What is asked about the log is asked with that number: an entry that began
// before the log was closed can still move gone on, by a clock read since.
func (l *windowLog) expire(now, span int64) (first uint32) {
	for {
		gone, next := l.bounds()
		for first = gone; first != next; first++ {
			if at, _ := l.read(first); at > now-span {
				break
			}
		}
		if first == gone || l.gone.CompareAndSwap(gone, first) {
			return first
		}
	}
}

// used returns the tokens of the first run and all after it.
func (l *windowLog) used(first uint32) int {
	_, next := l.bounds()
	_, before := l.read(first - 1)
	_, last := l.read(next - 1)
	return int(last - before)
}

// holder returns the instant of the run that holds the given token, counted from 1 from the
// first run on. It must be there.
func (l *windowLog) holder(first uint32, token int) int64 {
	_, before := l.read(first - 1)
	for number := first; ; number++ {
		if at, sum := l.read(number); sum-before >= uint64(token) {
			return at
		}
	}
}

// push appends an entry, and returns the log that holds it: a larger one if this was full, or would
// be for take, to which those count, too, that have ceased to since the entry before.
func (l *windowLog) push(at int64, cost int) (_ *windowLog, number uint32) {
	first, next := l.bounds()
	_, sum := l.read(next - 1)
	if int(next-first)+2 >= len(l.runs) {
		larger := newWindowLog(2 * len(l.runs))
		larger.runs[0].tag.Store(0)
		for number := first - 1; number != next; number++ {
			at, sum := l.read(number)
			larger.write(number, at, sum)
		}
		larger.gone.Store(first)
		larger.state.Store(l.state.Load())
		l = larger
	}
	l.write(next, at, sum+uint64(cost))
	l.moveTo(next + 1)
	return l, next
}

// moveTo makes number the next run's, the log being closed.
func (l *windowLog) moveTo(number uint32) {
	l.state.Store(l.state.Load()&^uint64(epoch-1) | uint64(number))
}

// settle adds tokens to a run, if it still counts, and to the sums of those after it: no more than
// can be counted. Empty runs at the end are forgotten.
func (l *windowLog) settle(number uint32, tokens int) {
	first, next := l.bounds()
	if number-first >= next-first {
		return
	}
	tokens = min(tokens, math.MaxInt-l.used(first))
	for n := number; n != next; n++ {
		l.read(n)
		l.run(n).sum.Add(uint64(tokens))
	}
	for ; next != first; next-- {
		_, before := l.read(next - 2)
		if _, sum := l.read(next - 1); sum != before {
			break
		}
		l.run(next - 1).tag.Store(next - 1) // not written
	}
	l.moveTo(next)
}
