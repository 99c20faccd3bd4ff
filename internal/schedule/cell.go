package schedule

import (
	"math"
	"sync/atomic"
)

// closed is the word of a cell whose state is elsewhere.
const closed = -1

// Verdict is a cell's answer.
type Verdict int

const (
	Taken   Verdict = iota // the entry may go, and has been counted
	Refused                // the tokens are not there
	Changed                // somebody else was faster: load the word again
	Closed                 // the state is under its lock
)

// Cell is the lock-free face of a Schedule that nobody waits for: the plan is
// immutable and the TAT is one atomic word, in units since base. Changing the
// plan closes the cell for good or for a while, which the compare-and-swap of
// every entry notices: no entry ever goes by a plan that was changed before.
type Cell struct {
	word    atomic.Int64
	base    int64 // the instant from which the word counts
	horizon int64 // the last instant after base that the word can count to
	per     int64
	step    int64
	room    int64 // burst·step
	burst   int
}

// Load returns the word to pass to Take. Read the clock after it: a reading from
// before could make out a token as missing that has been there all along.
func (c *Cell) Load() int64 { return c.word.Load() }

// Take lets an entry go at now, if the bucket, whose word was read before now
// was, has tokens for it. A cost above the burst is not for a cell to judge.
func (c *Cell) Take(word, now int64, cost int) Verdict {
	at := now - c.base
	switch {
	case word == closed:
		return Closed
	case c.step == 0:
		if !c.word.CompareAndSwap(word, word) {
			return Changed // to be closed, that is
		}
		return Taken
	case uint64(at) > uint64(c.horizon) || cost > c.burst:
		return Closed
	}
	at *= c.per
	tat := word
	if at-c.per >= word {
		tat = at
	}
	tat += int64(cost) * c.step
	if tat > at+c.room {
		return Refused
	}
	if !c.word.CompareAndSwap(word, tat) {
		return Changed
	}
	return Taken
}

// Close moves the state from the cell into s, which made it. Closing a closed
// cell does nothing.
func (c *Cell) Close(s *Schedule) {
	if word := c.word.Swap(closed); word != closed {
		tat := product(uint64(c.base), s.per).plus(wide{0, uint64(word)})
		if s.step != 0 {
			s.tat = tat
		}
	}
}

// Open moves the state of s into a cell: old itself where its plan still holds, a
// new one where not. It returns old, closed, where s can't do with a word: while it
// is held, while there is lateness to be made up, or where the burst at so fine
// a rate does not fit into 63 bits.
func (s *Schedule) Open(now int64, old *Cell) *Cell {
	if s.held > now || s.late > 0 {
		if s.Arrive(now); s.held > now || s.late > 0 {
			return old
		}
	}
	room := product(s.burst, s.step)
	if s.per > math.MaxInt64>>2 || room.hi != 0 || room.lo > math.MaxInt64>>2 {
		return old
	}
	c := old
	if c.base == 0 || now-c.base > c.horizon>>1 ||
		c.per != int64(s.per) || c.step != int64(s.step) || c.burst != int(s.burst) {
		c = &Cell{base: now, per: int64(s.per), step: int64(s.step), room: int64(room.lo), burst: int(s.burst)}
		c.horizon = math.MaxInt64 >> 1 / c.per
		c.word.Store(closed)
	}
	word := s.tat.minus(product(uint64(c.base), s.per))
	if word.hi != 0 || word.lo > math.MaxInt64>>1 {
		return old
	}
	// Until here nobody who entered under the old word could be missed: it was closed.
	c.word.Store(int64(word.lo))
	return c
}

// Shut returns a cell that is closed and stays so until Open replaces it.
func Shut() *Cell {
	c := new(Cell)
	c.word.Store(closed)
	return c
}
