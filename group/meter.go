package group

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Meter counts what a stage does. Use one for each stage to see which of them holds a pipeline up.
// Set it in [Stage] and call [Meter.Stats] at any time, from any goroutine. The zero Meter is ready
// for use; it must not be copied.
//
// The workers of the stage that holds the others up are in flight or at the gate. The workers of
// the stages before it are blocked, and those of the stages behind it are idle.
//
// Several stages with one Meter are counted together, also one after another. It costs some atomic
// operations an item. They are without contention, because every worker has its own counts.
type Meter struct {
	// Name is what logs and metrics call the stage. Set it before use.
	Name string

	mu    sync.Mutex // guards what follows; workers don't take it
	crews []crew     // of stages that work
	past  Stats      // of stages that have ended
}

// crew is the workers of one stage.
type crew struct {
	cells []cell
	full  func() bool // whether the look-ahead is used up; nil: there is none
}

// Stats is what a [Meter] has counted. In, Out and Errors only grow. The others say how many workers
// do what now. The workers go on meanwhile, so the numbers are not all of one instant.
type Stats struct {
	In     uint64 // items taken
	Out    uint64 // results sent; 0 in ForEach
	Errors uint64 // items with an error of f, or of entering the gate

	Idle     int // workers that wait for an item, or, in an ordered stage, for a slow one ahead
	AtGate   int // workers that wait at the gate
	InFlight int // workers that are in f
	Blocked  int // workers that wait until a result is taken
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
			if crew.cells[i].addTo(&s) == parked {
				waiting++
			}
		}
		// A parked worker waits for the worker that waits for an item, or for the one that holds up
		// the output. The latter is in f or blocked.
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
			if workerState(crew.cells[i].state.Load()) != gone {
				return false
			}
		}
		for i := range crew.cells {
			crew.cells[i].addTo(&m.past)
		}
		return true
	})
}

// add returns cells for so many workers of a stage. It returns nil for a nil meter.
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

// workerState is what a worker is doing.
type workerState uint32

const (
	idle workerState = iota
	atGate
	inFlight
	blocked
	parked // waits for look-ahead, or for the worker that waits for an item
	gone
)

// cell has the counts of one worker, which alone writes them. A nil cell counts nothing. A cell
// fills two cache lines, which processors fetch in pairs, so that workers don't slow each other
// down.
type cell struct {
	in, out, errors atomic.Uint64
	state           atomic.Uint32
	_               [128 - 28]byte
}

// addTo adds the cell's counts to s, and its worker to those in the same state. It returns that
// state.
func (c *cell) addTo(s *Stats) workerState {
	s.In += c.in.Load()
	s.Out += c.out.Load()
	s.Errors += c.errors.Load()
	state := workerState(c.state.Load())
	switch state {
	case idle:
		s.Idle++
	case atGate:
		s.AtGate++
	case inFlight:
		s.InFlight++
	case blocked:
		s.Blocked++
	}
	return state
}

func (c *cell) set(state workerState) {
	if c != nil {
		c.state.Store(uint32(state))
	}
}

// took counts an item. state is what the worker does from then on.
func (c *cell) took(state workerState) {
	if c != nil {
		c.in.Add(1)
		c.state.Store(uint32(state))
	}
}

func (c *cell) sent() {
	if c != nil {
		c.out.Add(1)
		c.state.Store(uint32(idle))
	}
}

func (c *cell) failed() {
	if c != nil {
		c.errors.Add(1)
	}
}
