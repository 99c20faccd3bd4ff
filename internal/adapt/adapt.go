// Package adapt is the adaptive step: how the interval of an adaptive gate moves. So far it
// is the founding rule and nothing more.
package adapt

import "math"

// Config says how far and how fast the interval moves.
type Config struct {
	Fastest, Slowest int64
	Backoff, Recover float64
	GiveUp           int
}

// State is the interval and what is known of it.
type State struct {
	c          Config
	interval   int64
	generation uint64
	row        int
}

// New returns a State at the fastest interval.
func New(c Config) State { return State{c: c, interval: c.Fastest} }

// Interval returns the present interval.
func (s *State) Interval() int64 { return s.interval }

// Grant notes an entry.
func (s *State) Grant(now int64) (mark uint64) { return s.generation }

// Success notes that an entry came back well.
func (s *State) Success(mark uint64, now int64) (changed bool) {
	if mark != s.generation {
		return false
	}
	s.row = 0
	next := max(int64(math.Round(float64(s.interval)*s.c.Recover)), s.c.Fastest)
	changed = next != s.interval
	s.interval = next
	return changed
}

// Throttle notes that an entry came back throttled.
func (s *State) Throttle(mark uint64, now int64) (changed bool) {
	if mark != s.generation {
		return false
	}
	s.generation++
	s.row++
	s.interval = min(int64(math.Round(float64(s.interval)*s.c.Backoff)), s.c.Slowest)
	return true
}

// GaveUp reports whether it was throttled too often.
func (s *State) GaveUp() bool { return s.c.GiveUp > 0 && s.row >= s.c.GiveUp }

// Reset forgets everything.
func (s *State) Reset() { s.interval, s.row, s.generation = s.c.Fastest, 0, s.generation+1 }
