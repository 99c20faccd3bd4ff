package adapt

import "math"

const (
	seasoned  = 16   // successes after which a probe that fails tells how much the far side had saved
	firstRoom = 2    // tokens that the first probe spends
	mostRoom  = 6    // the most tokens that a probe spends; more costs too many refusals where round trips are long
	shrink    = 0.8  // a probe makes the room smaller by at most this factor
	fewest    = 32.0 // a probe is fast enough to spend its room in this many entries
)

// strides say how much shorter a probe's interval is, as powers of Recover.
var strides = [...]float64{1.0 / 3, 1, 3}

// probes are the present probe, and what is known for the next one.
type probes struct {
	stride  int // the next probe's, an index of strides
	room    float64
	roomy   bool   // a refused probe has set the room
	trial   int64  // the probe's interval
	probe   uint32 // the probe's change of the interval
	first   uint32 // the probe's first entry
	passed  uint32 // how many of them came back well
	excused uint32 // how many of them were refused without counting
	idle    bool   // the probe's entries came too slowly to prove anything
}

// startProbe begins a probe at a shorter interval, and reports false where there is none. That
// interval spends the room in few entries, and is never less than half of the known one.
func (s *State) startProbe() bool {
	known := float64(s.known)
	x := min(math.Pow(s.config.Recover, strides[s.stride]), 1/(1+s.room/fewest))
	if s.span > 0 {
		x = s.reach()
	}
	if retry := s.takeAcquitted(); retry > 0 {
		x = min(x, float64(retry)/known)
	}
	s.trial = s.clamp(known * max(x, 0.5))
	if s.returning {
		s.trial = max(s.former, s.clamp(known/s.config.Backoff)) // so a throttle does not end below the known interval
	}
	if s.trial >= s.known {
		return false
	}
	s.phase = probing
	s.first, s.passed, s.excused, s.idle = s.grants+1, 0, 0, false
	s.set(s.trial)
	s.probe = s.change
	return true
}

// gain is how many tokens an entry of the probe spends beyond one at the known interval.
func (s *State) gain() float64 { return float64(s.known)/float64(s.trial) - 1 }

// length is how many entries the probe has.
func (s *State) length() uint32 { return uint32(math.Ceil(s.room/s.gain())) + 2 }

// endProbe ends the probe when all its entries are granted. If complete, the last of them has come
// back well. If not, the answers are awaited at the known interval. A success ends it and not a
// grant, because only a pass moves the interval.
func (s *State) endProbe(complete bool) (changed bool) {
	if s.grants-s.first+1 < s.length() {
		return false
	}
	if complete && !s.idle {
		return s.adopt()
	}
	s.phase = judging
	return s.set(s.known)
}

// judge ends the wait for the probe's answers. An entry that was granted after the probe is back,
// and none of the probe's was throttled before.
//
// If more of the probe was refused than noise explains, by a standard error, its interval is not adopted. That is too
// little to count as a throttle. But a bucket lets most entries of a faster pace through, so there may be no clearer
// sign.
func (s *State) judge() (changed bool) {
	n, p := float64(s.passed+s.excused), s.share()
	switch {
	case s.idle || s.passed < (s.length()+1)/2:
	case float64(s.excused) > n*p+math.Sqrt(n*p*(1-p)):
		s.fails++
	default:
		return s.adopt()
	}
	s.settle()
	return false
}

// adopt makes the probe's interval the known one, and goes on with the next probe.
func (s *State) adopt() (changed bool) {
	s.before, s.known = s.known, s.trial
	s.proof, s.fails = 0, 0
	s.stride = min(s.stride+1, len(strides)-1)
	if s.startProbe() {
		return true
	}
	s.settle()
	return s.interval != s.known && s.set(s.known)
}

// probeFailed adjusts the room after a probe. number is that of its first entry that was throttled.
func (s *State) probeFailed(number uint32) {
	spent := float64(number-s.first) * s.gain()
	switch {
	case s.proof < seasoned:
		// The far side may have had nothing saved up from the start.
		s.room = max(s.room, min(spent, mostRoom))
	case !s.roomy:
		s.roomy = true
		s.room = min(2*spent, mostRoom)
	default:
		s.room = min(max(2*spent, s.room*shrink), mostRoom)
	}
	s.fails++
	if s.stride--; s.stride < 0 {
		s.stride = len(strides) - 1
	}
}
