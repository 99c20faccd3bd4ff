package adapt

// A limit that moves to and fro is costly to find anew each time. So where refusals are costly, a State remembers the
// interval that worked before the limit moved. Now and then a probe returns to it. When the known interval fails
// and the remembered one is longer, the State goes there at once.
//
// The rest before such a probe is short, since a probe that fails only says that the limit has not moved back. It
// grows with each probe that fails, and shrinks with each that goes well.

const (
	moved     = 1.25 // two intervals that differ by less than this factor are the same limit
	firstRest = 5.0  // the rest before the first return, in spans after the proof. With 4, 5.1 % are throttled in a world
	growth    = 1.25 // the rest grows by this when a return fails, and shrinks by it when one goes well
)

// formerLimit is the interval that worked before the limit moved.
type formerLimit struct {
	lasted    int64   // the last known interval that worked for long; 0: none
	former    int64   // the interval that worked before the limit moved; 0: none
	rest      float64 // the rest before a return to former, in spans
	returning bool    // the next probe, or the present one, is at former
}

// noteLasting notes the known interval if it has worked for long, before another one is looked for.
func (s *State) noteLasting() {
	if s.phase != climbing && float64(s.proof)*float64(s.known) >= float64(s.span) {
		s.lasted = s.known
	}
}

// move notes that the limit has moved, if x is so much longer than the interval that lasted. It returns the interval
// to go on with, which is x or former.
func (s *State) move(x int64) int64 {
	back := s.former > s.lasted && s.ill >= s.well // to a longer interval that has worked before
	if s.lasted == 0 || x == s.known || !back && float64(x) < moved*float64(s.lasted) {
		return x
	}
	if back {
		x = max(x, min(s.former, s.interval))
	}
	if ratio := float64(s.former) / float64(x); ratio > 1/moved && ratio < moved {
		x = min(s.former, s.interval)
		s.failedInterval = x // so it is near, and there is no search for a shorter one
	}
	s.former, s.lasted, s.rest = s.lasted, 0, max(s.rest, firstRest)
	return x
}

// planReturn lets the next probe return to former, if that is shorter and its rest is over before the next probe is due.
func (s *State) planReturn() {
	wait := max(1, s.rest*float64(s.span)/float64(s.known))
	if s.former > 0 && float64(s.former)*(1+near) < float64(s.known) && wait < float64(s.left) {
		s.left, s.returning = int(wait), true
	}
}

// missReturn notes that the limit has not moved back.
func (s *State) missReturn() {
	s.returning, s.rest = false, min(s.rest*growth, rests)
}

// returned makes former the known interval again: the limit has moved back.
func (s *State) returned() (changed bool) {
	s.returning, s.rest = false, max(firstRest, s.rest/growth)
	s.known, s.former = s.former, s.known
	s.before, s.proof, s.fails, s.stride = 0, 0, 0, 0
	s.failedInterval = s.known
	s.settle()
	return s.interval != s.known && s.set(s.known)
}
