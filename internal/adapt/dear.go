package adapt

import "math"

// A refusal is dear where the far side says how long to keep away (Retry-After): everybody is
// held for that long, its span, and what might have gone through meanwhile is lost. A span of a
// second at a hundred a second is a hundred entries for each refusal, where it was a few. A
// State takes this road as long as a span is many intervals.

const (
	outlier = 64 // times a hint: what was told before does not count for more
	many    = 4  // intervals in a span, from which on it is dear

	// spans is for how many of them an interval must have gone well to be proven. A far side that
	// counts by windows has forgotten everybody when a hold ends, and lets any pace go well for a
	// window; and one span may lie across the edge of two windows that are each half full.
	spans = 2.0

	rests     = 16.0 // the rest between probes, in what a refusal costs
	near      = 0.08 // a known interval that is longer than one that failed by less is near enough
	eagerness = 0.5  // … and otherwise the rest is that, over what it is longer by, and as above
	sampling  = 32   // entries after the first refused one that tell a bucket from a window
	telling   = 1.05 // how much longer than the present interval a count must suggest to say something
	leap      = 1.5  // … and how much it is lengthened by at most where the count said nothing
)

// dear is what a State knows of holds.
type dear struct {
	span    int64  // nanoseconds that a refused one is kept away; 0: refusals are cheap
	held    bool   // nobody has entered since a refusal that named a span
	resumed uint32 // the first entry after the last one that did
	began   int64  // instant of the first entry at this interval, after the last hold
	started bool   // there was one
	ripe    uint32 // the first entry that came so much later that it proves the interval
	ripened bool   // there was one
	failed  uint32 // the first refused entry of the generation that failed last
	wall    int64  // an interval that failed; 0: none is known
	counted int64  // falling: the interval that the count of entries suggests; 0: none
}

// heed notes for how long the far side keeps away those whom it refuses. That differs from one
// refusal to the next where it is told to the millisecond, so the longest of the last few counts;
// but not one that was out of all proportion.
func (s *State) heed(after int64) {
	if s.span = max(after, min(s.span/8*7, after*outlier)); s.span/many < s.interval {
		s.span = 0
	}
}

// ripen notes how old the present interval is, when an entry is let go at now.
func (s *State) ripen(now int64) {
	if !s.started {
		s.started, s.began = true, now
	}
	if s.held {
		s.held, s.resumed, s.began, s.ripened = false, s.grants, now, false
	}
	if !s.ripened && float64(now-s.began) >= spans*float64(s.span) {
		s.ripened, s.ripe = true, s.grants
	}
}

// isRipe tells whether the entry with that number, which was granted at the present interval,
// proves it by coming back well.
func (s *State) isRipe(number uint32) bool { return s.ripened && int32(number-s.ripe) >= 0 }

// miss looks for another interval, because the present one has failed. number is that of the
// first entry that was refused.
//
// If it came soon after a hold, the far side has taken so many entries in a span, and that may
// be its limit: it is, for a window that is no longer than the span. If it came later, the
// interval was only a little too short. If that was said before, the window is longer than
// the span: it has taken so many in the time that they took and a span.
func (s *State) miss(number uint32, after int64) {
	s.stride, s.fails, s.slips = 0, 0, s.slips+1
	if s.phase == climbing || s.phase == falling {
		s.known = s.interval
	}
	s.before, s.wall, s.counted = 0, s.known, 0
	known, each := float64(s.known), float64(after)/float64(max(number-s.resumed, 1))
	switch {
	case each >= telling*known:
		s.counted = s.clamp(each)
		s.fall(s.clamp(each * margin))
	case s.slips > 1:
		s.fall(s.clamp(max(s.longer(), min(known+each, known*leap))))
	default:
		s.fall(s.clamp(s.longer()))
	}
}

// longer is the known interval, lengthened by a third of a Recover.
func (s *State) longer() float64 {
	return float64(s.known) * math.Pow(s.config.Recover, -strides[0])
}

// landing returns the interval to return to, given the one that the share of the entries under
// way that came back well suggests. A bucket lets some of them through, so the longer of the two
// is a misunderstanding: it had saved little up. A window lets none through.
func (s *State) landing(share float64) int64 {
	return s.clamp(max(s.longer(), min(share, float64(s.target))))
}

// believe takes the count for the limit itself, and not just for a hint, when it is the first
// or the second time that something was refused: later, nobody knows what was spent before.
func (s *State) believe(x int64) {
	if s.counted > 0 && s.slips <= 2 && float64(x)*telling > float64(s.counted)*margin {
		s.wall, s.fails = min(s.counted, s.clamp(float64(x)/margin)), 1
	}
}

// missProbe returns to the known interval, because the probe's has failed.
func (s *State) missProbe() {
	s.wall, s.counted, s.stride = s.trial, 0, 0
	s.fails++
	s.fall(s.known)
}

// gap is how much longer the known interval is than the one that failed; 0: none is known.
func (s *State) gap() float64 {
	if s.wall == 0 {
		return 0
	}
	return float64(s.known)/float64(s.wall) - 1
}

// patience is the number of successes until the next probe: many where it can win little.
func (s *State) patience() int {
	cost := float64(s.span) / float64(s.known)
	if gap := s.gap(); gap >= near {
		cost *= eagerness / gap
	} else {
		cost *= rests * float64(uint(1)<<min(s.fails, 2))
	}
	return int(min(cost, math.MaxInt32))
}

// reach is the interval of the next probe, over the known one: half way to the one that failed,
// or, if that is near, a little beyond.
func (s *State) reach() float64 {
	if gap := s.gap(); gap >= near {
		return math.Sqrt(1 / (1 + gap))
	}
	return math.Pow(s.config.Recover, strides[s.stride])
}

// proven ends a probe whose interval has gone well for long: it is the known one.
func (s *State) proven() (changed bool) {
	// Whoever did not go as fast as allowed has not shown that it is allowed (RFC 7661).
	if float64(s.ripe-s.first)*float64(s.trial) < spans*float64(s.span)/2 {
		s.settle()
		return s.set(s.known)
	}
	s.known, s.before = s.trial, 0
	s.proof, s.fails = 0, 0
	switch gap := s.gap(); {
	case gap <= 0:
		s.wall = 0
	case gap < near:
		s.stride = 0
		s.settle()
		return false
	}
	s.stride = min(s.stride+1, len(strides)-1)
	if s.startProbe() {
		return true
	}
	s.settle()
	return false
}
