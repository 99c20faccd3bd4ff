package group

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Meter counts what a stage does, so that one can see which stage holds a pipeline up. Set
// it in [Stage] and call [Meter.Stats] at any time, from any goroutine. The zero Meter is
// ready for use; it must not be copied. Several stages with one Meter are counted together,
// also one after another.
//
// The stage that holds the others up is the one whose workers are in flight or at the
// gate, while those of the stages before it are blocked and those behind it idle.
//
// It costs some atomic operations an item that nobody contends for: every worker counts for
// itself.
type Meter struct {
	mu    sync.Mutex // guards what follows; workers don't take it
	crews []crew     // of stages that work
	past  Stats      // of stages that have ended
}

// crew is the workers of one stage.
type crew struct {
	cells []cell
	full  func() bool // whether the look-ahead is used up; nil: there is none
}

// Stats is what a [Meter] has counted. In, Out and Errors grow; the others say what the
// workers are doing now. The workers go on while they are counted, so the numbers are not
// of one instant exactly.
type Stats struct {
	In     uint64 // items taken
	Out    uint64 // results sent; none in ForEach
	Errors uint64 // items whose f, or whose entry to the gate, came to an error

	Idle     int // workers that wait for an item, or for a slow one that holds up the look-ahead
	AtGate   int // … that wait at the gate
	InFlight int // … that are in f
	Blocked  int // … that wait for somebody to take a result
}

// Stats returns what has been counted so far.
func (m *Meter) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.foldLocked()
	s := m.past
	for _, crew := range m.crews {
		n, waiting := s.Blocked, 0
		for i := range crew.cells {
			if crew.cells[i].addTo(&s) == behind {
				waiting++
			}
		}
		// They wait for one of them who waits for an item, or for whoever holds up the output:
		// for a slow item, or for a reader.
		if s.Blocked > n && waiting > 0 && crew.full() {
			s.Blocked += waiting
		} else {
			s.Idle += waiting
		}
	}
	return s
}

// foldLocked keeps the counts of stages that have ended, but not their cells.
func (m *Meter) foldLocked() {
	m.crews = slices.DeleteFunc(m.crews, func(crew crew) bool {
		for i := range crew.cells {
			if doing(crew.cells[i].doing.Load()) != gone {
				return false
			}
		}
		for i := range crew.cells {
			crew.cells[i].addTo(&m.past)
		}
		return true
	})
}

// add returns cells for so many workers of a stage, or nil if there is no meter.
func (m *Meter) add(workers int, full func() bool) []cell {
	if m == nil {
		return nil
	}
	cells := make([]cell, workers)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.foldLocked()
	m.crews = append(m.crews, crew{cells, full})
	return cells
}

// doing is what a worker is about.
type doing uint32

const (
	idle doing = iota
	atGate
	inFlight
	blocked
	behind // waits for look-ahead, or for who waits for an item
	gone
)

// cell is one worker's share of a meter, written by that worker alone. A nil cell counts
// nothing. It fills two cache lines, which processors fetch in pairs, so that workers
// don't slow each other down.
type cell struct {
	in, out, errors atomic.Uint64
	doing           atomic.Uint32
	_               [128 - 28]byte
}

// addTo adds the cell's counts to s, and its worker to those who do the same. It returns
// what that is.
func (c *cell) addTo(s *Stats) doing {
	s.In += c.in.Load()
	s.Out += c.out.Load()
	s.Errors += c.errors.Load()
	d := doing(c.doing.Load())
	switch d {
	case idle:
		s.Idle++
	case atGate:
		s.AtGate++
	case inFlight:
		s.InFlight++
	case blocked:
		s.Blocked++
	}
	return d
}

func (c *cell) set(d doing) {
	if c != nil {
		c.doing.Store(uint32(d))
	}
}

// took counts an item, which is at the gate or in flight from then on.
func (c *cell) took(d doing) {
	if c != nil {
		c.in.Add(1)
		c.doing.Store(uint32(d))
	}
}

func (c *cell) sent() {
	if c != nil {
		c.out.Add(1)
		c.doing.Store(uint32(idle))
	}
}

func (c *cell) failed() {
	if c != nil {
		c.errors.Add(1)
	}
}
