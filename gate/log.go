package gate

import "math"

// windowLog has one run for each entry that a Window still counts, numbered in order. The lock of the limit's
// group guards it. To append, settle or forget a run takes constant time.
type windowLog struct {
	runs   []run  // a ring: their number is a power of two
	blocks []int  // tokens of each blockRuns runs in a row, so that holder can skip them
	first  uint64 // the number of the first run that counts
	next   uint64 // the number of the next run
	used   int    // tokens of all runs that count
}

// run has the tokens of one entry, and the instant from which they count.
type run struct {
	at      int64
	tokens  int
	settled bool
}

const blockRuns = 64

func (l *windowLog) run(number uint64) *run { return &l.runs[number&uint64(len(l.runs)-1)] }

// count adds tokens to a run, or takes them off if tokens is negative.
func (l *windowLog) count(number uint64, tokens int) {
	place := number & uint64(len(l.runs)-1)
	l.runs[place].tokens += tokens
	l.blocks[place/blockRuns] += tokens
	l.used += tokens
}

// expire forgets the runs that have counted for a span by now.
func (l *windowLog) expire(now, span int64) {
	for l.first != l.next {
		r := l.run(l.first)
		if r.at > now-span {
			return
		}
		l.count(l.first, -r.tokens)
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
	l.count(number, cost)
	return number
}

// grow doubles the room for runs.
func (l *windowLog) grow() {
	size := max(8, 2*len(l.runs))
	larger := windowLog{
		runs:   make([]run, size),
		blocks: make([]int, (size+blockRuns-1)/blockRuns),
		first:  l.first,
		next:   l.next,
	}
	for number := l.first; number != l.next; number++ {
		r := *l.run(number)
		*larger.run(number) = run{at: r.at, settled: r.settled}
		larger.count(number, r.tokens)
	}
	*l = larger
}

// settle corrects the tokens of an entry to actual, if it still counts. It adds no more than an int can count.
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
	if number < l.first {
		return
	}
	more := actual - l.run(number).tokens
	l.count(number, min(more, math.MaxInt-l.used))
}

// holder returns the instant of the run that has the given token. Tokens are counted from 1, from the first run
// on. There must be that many.
func (l *windowLog) holder(token int) int64 {
	number := l.first
	for {
		r := l.run(number)
		if token -= r.tokens; token <= 0 {
			return r.at
		}
		number++
		// One block may have both the first and the last runs of the ring. The loop stops there: it has the
		// token.
		for place := number & uint64(len(l.runs)-1); place%blockRuns == 0 && l.blocks[place/blockRuns] < token; place = number & uint64(len(l.runs)-1) {
			token -= l.blocks[place/blockRuns]
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
	used    int
	first   uint64 // the first run in the log that counts then
	waiting int    // the first in line that counts then
}

func (o *windowOutlook) Turn(cost int) int64 {
	v := o.windowView
	for v.used > o.l.most-cost {
		r := (*run)(nil)
		if v.first != o.l.log.next {
			r = o.l.log.run(v.first)
			v.first++
		} else {
			r = &o.l.line[v.waiting]
			v.waiting++
		}
		v.used -= r.tokens
		v.at = max(v.at, o.l.over(r.at))
	}
	o.next = v
	return v.at
}

func (o *windowOutlook) Stays(cost int) {
	o.windowView = o.next
	o.used += cost
	o.l.line = append(o.l.line, run{at: o.at, tokens: cost})
}
