package gate

import "math"

// windowLog is what a Window remembers: one run for each entry that still counts, numbered in order. It is
// guarded by the lock of the limit's group. To append, to settle and to forget a run takes the same time
// however many there are.
type windowLog struct {
	runs   []run // a power of two of them, used in a circle
	blocks []int // tokens of each blockRuns runs in a row, so that few of them need be looked at
	first  uint64
	next   uint64 // the number of the next run; those from first on count
	used   int    // tokens of all runs that count
}

// run is what one entry uses, from the instant at which it began to count.
type run struct {
	at      int64
	tokens  int
	settled bool
}

const blockRuns = 64

func (l *windowLog) run(number uint64) *run { return &l.runs[number&uint64(len(l.runs)-1)] }

// count adds tokens to a run.
func (l *windowLog) count(number uint64, tokens int) {
	place := number & uint64(len(l.runs)-1)
	l.runs[place].tokens += tokens
	l.blocks[place/blockRuns] += tokens
	l.used += tokens
}

// expire forgets the runs that went a span or longer before now.
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

// push appends an entry that goes at the given instant, and returns its number.
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

// grow makes room for twice as many runs.
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

// settle makes the tokens of an entry actual ones, if it still counts: no more than can be counted.
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

// change is settle for an entry that need not have run.
func (l *windowLog) change(number uint64, actual int) {
	if number < l.first {
		return
	}
	more := actual - l.run(number).tokens
	l.count(number, min(more, math.MaxInt-l.used))
}

// holder returns the instant of the run that holds the given token, counted from 1 from the first
// run on. It must be there.
func (l *windowLog) holder(token int) int64 {
	number := l.first
	for {
		r := l.run(number)
		if token -= r.tokens; token <= 0 {
			return r.at
		}
		number++
		// Once around, a block would hold the first runs as well as the last, but it holds the token.
		for place := number & uint64(len(l.runs)-1); place%blockRuns == 0 && l.blocks[place/blockRuns] < token; place = number & uint64(len(l.runs)-1) {
			token -= l.blocks[place/blockRuns]
			number += blockRuns
		}
	}
}

// windowOutlook plays a Window forward. At each turn it forgets the runs, in the log and then in
// line, that have to be over for the entry to have room.
type windowOutlook struct {
	l *windowLimit
	windowView
	next windowView // if the one whose turn was asked for stays
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
