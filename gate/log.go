package gate

import (
	"runtime"
	"sync/atomic"

	"github.com/escapement-go/escapement/internal/timing"
)

// windowLog is what a Window remembers: one run for each entry, numbered in order, each
// with its instant and the sum of all tokens until then. What still counts is the
// difference of two such sums, so nothing has to be added up.
//
// While it is open, entries append to it without a lock: whoever moves next from k to k+1
// has got run k, writes it, and publishes it by its number. Everything that was read
// before the move stood still until then, because only a move could have changed it. All
// methods but take want it closed, under the domain's lock.
type windowLog struct {
	next atomic.Uint64 // number of the next run; the top bit: closed
	gone atomic.Uint64 // runs before this one no longer count; it only grows
	runs []run         // a power of two long; holds the last run that no longer counts, and all that do
}

// run is what one entry has used. Its number is that of the entry plus one once it has been
// written; the other fields belong to it then.
type run struct {
	number atomic.Uint64
	at     atomic.Int64
	sum    atomic.Uint64 // tokens of this run and all before it; wraps around
}

const shut = 1 << 63

// newWindowLog returns a log that is closed, with a run of nothing long ago.
func newWindowLog(size int) *windowLog {
	l := &windowLog{runs: make([]run, size)}
	l.runs[0].number.Store(1)
	l.next.Store(1 | shut)
	l.gone.Store(1)
	return l
}

func (l *windowLog) run(number uint64) *run { return &l.runs[number&uint64(len(l.runs)-1)] }

// pick is what take finds out.
type pick int

const (
	picked pick = iota // the entry has gone and is in the log
	full               // there is no room for it at this instant
	again              // somebody else was faster
	busy               // the lock is needed
)

// take appends an entry, if together with those of the last span it is not more than most.
// The clock is read after the log was, so that no instant in the log, and none by which
// somebody else found runs to be gone, is later.
func (l *windowLog) take(clk *timing.Clock, span int64, most, cost int) (number uint64, _ pick) {
	next := l.next.Load()
	gone := l.gone.Load()
	if next&shut != 0 || cost > most {
		return 0, busy
	}
	now := clk.Now()
	last := l.run(next - 1)
	if last.number.Load() != next {
		return 0, busy // whoever has got it is about to write it
	}
	first := gone
	for ; first < next; first++ {
		r := l.run(first)
		at := r.at.Load()
		if r.number.Load() != first+1 {
			return 0, again
		}
		if at > now-span {
			break
		}
	}
	if first != gone {
		l.gone.CompareAndSwap(gone, first)
	}
	before := l.run(first - 1)
	sum := last.sum.Load()
	used := int64(sum - before.sum.Load())
	if before.number.Load() != first {
		return 0, again
	}
	if used > int64(most-cost) {
		if l.next.Load() != next {
			return 0, again
		}
		return 0, full
	}
	if next-first+1 >= uint64(len(l.runs)) {
		return 0, busy // it must grow
	}
	if !l.next.CompareAndSwap(next, next+1) {
		return 0, again
	}
	l.write(next, now, sum+uint64(cost))
	return next, picked
}

func (l *windowLog) write(number uint64, at int64, sum uint64) {
	r := l.run(number)
	r.at.Store(at)
	r.sum.Store(sum)
	r.number.Store(number + 1)
}

// close keeps entries from appending without the lock.
func (l *windowLog) close() { l.next.Or(shut) }

// open lets them.
func (l *windowLog) open() { l.next.And(^uint64(shut)) }

// bounds returns the number of the first run that counts and that of the next to come.
func (l *windowLog) bounds() (first, next uint64) {
	return l.gone.Load(), l.next.Load() &^ shut
}

// read returns a run that has been appended. Whoever appended it without the lock may be
// about to write it: that takes a few instructions.
func (l *windowLog) read(number uint64) (at int64, sum uint64) {
	r := l.run(number)
	for r.number.Load() != number+1 {
		runtime.Gosched()
	}
	return r.at.Load(), r.sum.Load()
}

// expire forgets the runs that do not count any more.
func (l *windowLog) expire(now, span int64) {
	first, next := l.bounds()
	for ; first < next; first++ {
		if at, _ := l.read(first); at > now-span {
			break
		}
	}
	l.gone.Store(first)
}

// used returns the tokens that count.
func (l *windowLog) used() int {
	first, next := l.bounds()
	_, before := l.read(first - 1)
	_, last := l.read(next - 1)
	return int(last - before)
}

// freed returns the instant of the run that holds the given token, counted from 1 from the
// oldest that counts. It must be there.
func (l *windowLog) freed(token int) int64 {
	first, _ := l.bounds()
	_, before := l.read(first - 1)
	for number := first; ; number++ {
		if at, sum := l.read(number); sum-before >= uint64(token) {
			return at
		}
	}
}

// push appends an entry, and returns the log that holds it: a larger one if this was full.
func (l *windowLog) push(at int64, cost int) (_ *windowLog, number uint64) {
	first, next := l.bounds()
	_, sum := l.read(next - 1)
	if next-first+1 >= uint64(len(l.runs)) {
		larger := newWindowLog(2 * len(l.runs))
		larger.runs[0].number.Store(0)
		for number := first - 1; number != next; number++ {
			at, sum := l.read(number)
			larger.write(number, at, sum)
		}
		larger.gone.Store(first)
		l = larger
	}
	l.write(next, at, sum+uint64(cost))
	l.next.Store(next + 1 | shut)
	return l, next
}

// settle adds tokens to a run, if it still counts, and to the sums of those after it. Empty
// runs at the end are forgotten.
func (l *windowLog) settle(number uint64, tokens int) {
	first, next := l.bounds()
	if number < first || number >= next {
		return
	}
	for n := number; n != next; n++ {
		l.read(n)
		l.run(n).sum.Add(uint64(tokens))
	}
	for ; next > first; next-- {
		_, before := l.read(next - 2)
		if _, sum := l.read(next - 1); sum != before {
			break
		}
		l.run(next - 1).number.Store(0)
	}
	l.next.Store(next | shut)
}
