package gate

import (
	"math"
	"math/bits"
)

// windowLog has one run for each entry that a Window still counts, numbered in order. The lock of the limit's
// group guards it. To append, settle or forget a run takes constant time.
type windowLog struct {
	runs   []run   // a ring: their number is a power of two
	blocks []total // tokens of each blockRuns runs in a row, so that holder can skip them
	first  uint64  // the number of the first run that counts
	next   uint64  // the number of the next run
	used   total   // tokens of all runs that count
}

// run has the tokens of one entry, and the instant from which they count.
type run struct {
	at      int64
	tokens  int
	settled bool
}

const blockRuns = 64

func (l *windowLog) run(number uint64) *run { return &l.runs[number&uint64(len(l.runs)-1)] }

// set changes the tokens of a run.
func (l *windowLog) set(number uint64, tokens int) {
	place := number & uint64(len(l.runs)-1)
	r, block := &l.runs[place], &l.blocks[place/blockRuns]
	*block = block.minus(r.tokens).plus(tokens)
	l.used = l.used.minus(r.tokens).plus(tokens)
	r.tokens = tokens
}

// expire forgets the runs that have counted for a span by now.
func (l *windowLog) expire(now, span int64) {
	for l.first != l.next {
		r := l.run(l.first)
		if r.at > now-span {
			return
		}
		l.set(l.first, 0)
		l.first++
	}
}

// push appends an entry that counts from the instant at, and returns its number.
func (l *windowLog) push(at int64, cost int) (number uint64) {
	if l.next-l.first == uint64(len(l.runs)) {
		l.grow()
	}
	number = l.next
	l.next++
	*l.run(number) = run{at: at}
	l.set(number, cost)
	return number
}

// grow doubles the room for runs.
func (l *windowLog) grow() {
	size := max(8, 2*len(l.runs))
	larger := windowLog{
		runs:   make([]run, size),
		blocks: make([]total, (size+blockRuns-1)/blockRuns),
		first:  l.first,
		next:   l.next,
	}
	for number := l.first; number != l.next; number++ {
		r := *l.run(number)
		*larger.run(number) = run{at: r.at, settled: r.settled}
		larger.set(number, r.tokens)
	}
	*l = larger
}

// settle corrects the tokens of an entry to actual, if it still counts.
func (l *windowLog) settle(number uint64, actual int) {
	if number < l.first {
		return
	}
	r := l.run(number)
	if r.settled {
		panic(settledTwice)
	}
	r.settled = true
	l.change(number, actual)
}

// change is settle without the check for a second call.
func (l *windowLog) change(number uint64, actual int) {
	if number >= l.first {
		l.set(number, actual)
	}
}

// holder returns the instant of the run that has the given token. Tokens are counted from 1, from the first run
// on. There must be that many.
func (l *windowLog) holder(token total) int64 {
	number := l.first
	for {
		r := l.run(number)
		if !token.above(count(r.tokens)) {
			return r.at
		}
		token = token.minus(r.tokens)
		number++
		// One block may have both the first and the last runs of the ring. The loop stops there: it has the
		// token.
		for place := number & uint64(len(l.runs)-1); place%blockRuns == 0 && token.above(l.blocks[place/blockRuns]); place = number & uint64(len(l.runs)-1) {
			token = token.less(l.blocks[place/blockRuns])
			number += blockRuns
		}
	}
}

// windowOutlook simulates a Window into the future. At each turn it forgets as many runs as must cease to count
// for the entry to have room. These are first in the log, and then in line.
type windowOutlook struct {
	l *windowLimit
	windowView
	next windowView // after the turn that was asked for last, if Stays is called
}

// windowView is a Window at the instant at which an entry is admitted.
type windowView struct {
	at      int64
	used    total
	first   uint64 // the first run in the log that counts then
	waiting int    // the first in line that counts then
}

func (o *windowOutlook) Turn(cost int) int64 {
	v := o.windowView
	for room := count(max(o.l.most-cost, 0)); v.used.above(room); {
		r := (*run)(nil)
		if v.first != o.l.log.next {
			r = o.l.log.run(v.first)
			v.first++
		} else {
			r = &o.l.line[v.waiting]
			v.waiting++
		}
		v.used = v.used.minus(r.tokens)
		v.at = max(v.at, o.l.over(r.at))
	}
	o.next = v
	return v.at
}

func (o *windowOutlook) Stays(cost int) {
	o.windowView = o.next
	o.used = o.used.plus(cost)
	o.l.line = append(o.l.line, run{at: o.at, tokens: cost})
}

// total is a number of tokens. It is exact even where debts exceed an int.
type total struct{ high, low uint64 }

// count returns n as a total.
func count(n int) total { return total{low: uint64(n)} }

func (t total) plus(n int) total { return t.more(count(n)) }

// minus returns t less n. There must be that many.
func (t total) minus(n int) total { return t.less(count(n)) }

func (t total) more(o total) total {
	low, carry := bits.Add64(t.low, o.low, 0)
	return total{t.high + o.high + carry, low}
}

func (t total) less(o total) total {
	low, borrow := bits.Sub64(t.low, o.low, 0)
	return total{t.high - o.high - borrow, low}
}

// above reports whether t is more than o.
func (t total) above(o total) bool { return t.high > o.high || t.high == o.high && t.low > o.low }

// tokens returns the total, or the highest int if that is less.
func (t total) tokens() int {
	if t.above(count(math.MaxInt)) {
		return math.MaxInt
	}
	return int(t.low)
}
