package schedule

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// closed is the word of a cell while its state is in a Schedule.
const closed = -1

// Verdict is a cell's answer.
type Verdict int

const (
	Taken   Verdict = iota // the entry is granted and charged
	Refused                // there are not enough tokens
	Changed                // another goroutine changed the word: load it again
	Closed                 // the state is in the Schedule, under its lock
)

// Cell is the lock-free face of a Schedule with no waiters. The plan is immutable. One atomic word
// holds the TAT, in units since base, and below it how many entries were granted since the cell was
// opened.
//
// A change of plan closes the cell, for good or for a while. The compare-and-swap of every entry
// notices that, so no entry is granted by an outdated plan. A count that has reached its limit
// closes the cell in the same way.
//
// The fields fill one cache line, which an entry needs for itself anyway.
type Cell struct {
	word    atomic.Int64
	base    int64 // the instant from which the word counts
	horizon int64 // the last instant after base that the word can count to
	per     int64 // units a nanosecond, shifted above the count
	step    int64 // units a token, shifted above the count
	room    int64 // burst·step, shifted above the count, with the largest count below it
	burst   int   // the highest cost; a higher one needs the lock
	mask    int64 // the bits of the count
}

// Load returns the word to pass to Take. Read the clock after it. A reading from before may make
// Take miss a token that has been there all along. That is harmless only if the caller checks again
// what Take refuses.
func (c *Cell) Load() int64 { return c.word.Load() }

// Take grants an entry at now, if the bucket has tokens for it. word was loaded before now was
// read. It returns Closed for a cost above the burst.
func (c *Cell) Take(word, now int64, cost int) Verdict {
	next, v := c.Next(word, now, cost)
	if v == Taken && !c.Swap(word, next) {
		v = Changed
	}
	return v
}

// Next and Swap are Take in two steps: Take as a whole is too large to be inlined. Next returns the
// word to swap in, if it says Taken.
func (c *Cell) Next(word, now int64, cost int) (next int64, v Verdict) {
	at := now - c.base
	if word&c.mask == c.mask || uint64(at) > uint64(c.horizon) || cost > c.burst {
		return 0, Closed // a closed word has all bits set
	}
	at *= c.per
	next = word
	if at-c.per+c.mask >= word {
		next = at | word&c.mask
	}
	next += int64(cost)*c.step + 1
	if next > at+c.room {
		return 0, Refused
	}
	return next, Taken
}

// Swap stores next and so grants the entry. It reports false, and grants nothing, if the word has
// changed since it was read.
func (c *Cell) Swap(word, next int64) bool { return c.word.CompareAndSwap(word, next) }

// Close moves the state from the cell into s, which has its plan. It returns how many entries were
// granted since the cell was opened. Closing a closed cell does nothing.
func (c *Cell) Close(s *Schedule) (taken uint64) {
	if c.word.Load() == closed {
		return 0
	}
	return c.read(s, c.word.Swap(closed))
}

// Peek copies the state into s, as Close does, and leaves the cell open.
func (c *Cell) Peek(s *Schedule) (taken uint64) {
	word := c.word.Load()
	if word == closed {
		return 0
	}
	return c.read(s, word)
}

func (c *Cell) read(s *Schedule, word int64) (taken uint64) {
	if s.step != 0 {
		s.tat = product(uint64(c.base), s.per).plus(wide{0, uint64(word >> bits.Len64(uint64(c.mask)))})
	}
	return uint64(word & c.mask)
}

// The count gets as many bits as leave a minute's worth of units to the TAT, within these limits.
// When the count is used up, an entry takes the lock, which must be rare.
const (
	mostCount  = 16
	leastCount = 6
	minute     = 60e9
)

// Open moves the state of s into a cell: old itself where its plan still holds, a new one where
// not. It returns old, closed, where a word can't hold the state:
//
//   - during a hold,
//   - while there is lateness to be made up,
//   - where the burst at so fine a rate does not fit into the word,
//   - where refunds must know of every entry.
func (s *Schedule) Open(now int64, old *Cell) *Cell {
	if s.past != nil {
		return old
	}
	s.endHold(now)
	if s.held > now || s.late > 0 {
		if s.Arrive(now); s.held > now || s.late > 0 {
			return old
		}
	}
	c := old
	if !c.fits(s) || now-c.base > c.horizon>>1 {
		if c = newCell(now, s); c == nil {
			return old
		}
	}
	tat := wide{}
	if s.step != 0 {
		tat = s.tat.minus(product(uint64(c.base), s.per))
	}
	if count := bits.Len64(uint64(c.mask)); tat.hi == 0 && tat.lo <= math.MaxInt64>>1>>count {
		// No entry can have been granted under the old word until here: it was closed.
		c.word.Store(int64(tat.lo << count))
		s.last = 0
		return c
	}
	return old
}

// newCell returns a closed cell for the plan of s that counts from now on. It returns nil where the
// plan does not fit into a word.
func newCell(now int64, s *Schedule) *Cell {
	room := product(s.burst, s.step)
	count := mostCount
	for ; count >= leastCount; count-- {
		most := uint64(math.MaxInt64) >> count
		if s.per > most>>2 || room.hi != 0 || room.lo > most>>2 {
			continue
		}
		if count == leastCount || most>>1/s.per >= minute {
			break
		}
	}
	if count < leastCount {
		return nil
	}
	c := &Cell{
		base:    max(now-1, 0), // keeps a TAT that lies less than a nanosecond before now
		horizon: int64(uint64(math.MaxInt64) >> count >> 1 / s.per),
		per:     int64(s.per << count),
		step:    int64(s.step << count),
		room:    int64(room.lo<<count | (1<<count - 1)),
		burst:   s.Limit(),
		mask:    1<<count - 1,
	}
	if s.step == 0 {
		c.room = math.MaxInt64 >> 2 // a goroutine that read the clock later may have swapped first
	}
	c.word.Store(closed)
	return c
}

// fits reports whether the plan of s is that of the cell.
func (c *Cell) fits(s *Schedule) bool {
	count := bits.Len64(uint64(c.mask))
	return c.base != 0 && c.per>>count == int64(s.per) && c.step>>count == int64(s.step) && c.burst == s.Limit()
}

// Shut returns a closed cell. Open replaces it.
func Shut() *Cell {
	c := &Cell{mask: 1}
	c.word.Store(closed)
	return c
}
