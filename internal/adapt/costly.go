package adapt

import "math"

// A refusal is costly where the far side says how long to keep away (Retry-After). Every caller is
// held for that long, its span, and what might have gone through meanwhile is lost. At a hundred
// entries a second, a span of a second costs a hundred entries for each refusal. Without a hint a
// refusal costs a few. A State uses the code below as long as a span is many intervals.

const (
	outlier = 64 // a longer hint counts for at most this many times the present one
	never   = math.MinInt64
	many    = 4 // intervals in a span, from which on a refusal is costly

	// spans is how many spans an interval must have gone well for to be proven. A far side that
	// counts by windows starts afresh when a hold ends, and any pace goes well for a window. Also,
	// one span may lie across the edge of two windows that are each half full.
	spans = 2.0

	rests     = 16.0 // the rest between probes, as a multiple of what a refusal costs
	near      = 0.08 // a known interval that is longer than the failed one by a smaller share than this is near it
	eagerness = 0.5  // where it is not near, the rest is this over that share, as a multiple of the same
	telling   = 1.05 // a count or a share says something if it suggests an interval this many times the present one
	leap      = 1.5  // an interval is lengthened by at most this factor where the count said nothing
)

// costlyRefusals is what a State knows of holds.
type costlyRefusals struct {
	span           int64  // nanoseconds for which a refusal holds the entries; 0: refusals are cheap
	resumed        uint32 // the first entry granted after the last refusal that named a span
	began          int64  // instant of the first entry at this interval, after the last hold; never: none yet
	provesFrom     uint32 // the first entry so much later than began that it proves the interval; 0: none yet
	failed         uint32 // the first refused entry of the generation that failed last
	failedInterval int64  // an interval that failed; 0: none is known
	counted        int64  // falling: the interval that the count of entries suggests; 0: none
}

// noteHint notes for how long the far side keeps a refused caller away. Where hints count milliseconds,
// they differ from one refusal to the next, so the longest of the last few counts. A hint out of
// all proportion does not.
func (s *State) noteHint(after int64) {
	if s.span = max(after, min(s.span/8*7, after*outlier)); s.span/many < s.interval {
		s.span = 0
	}
}

// heldFor notes that the next entry is the first one after a hold, if after is not 0.
func (s *State) heldFor(after int64) {
	if after > 0 {
		s.resumed, s.began, s.provesFrom = s.grants+1, never, 0
	}
}

// noteAge notes how old the present interval is, when an entry is granted at now.
func (s *State) noteAge(now int64) {
	if s.began == never {
		s.began = now
	}
	older := s.provesFrom == 0 && float64(now-s.began) >= spans*float64(s.span)
	if older {
		s.provesFrom = s.grants
	}
	if n := s.grants - s.first + 1; s.phase == probing && (s.span > 0 && older || s.span == 0 && n == s.length()) {
		// Entries that went slower than allowed do not show that the pace is allowed (RFC 7661).
		s.idle = now-s.began > s.known+2*int64(n)*s.trial
	}
}

// proves reports whether the entry with that number proves the present interval by coming back
// well. It was granted at that interval.
func (s *State) proves(number uint32) bool {
	return s.provesFrom != 0 && int32(number-s.provesFrom) >= 0
}

// miss looks for another interval, because the present one has failed. number is that of the first
// entry that was refused.
//
// If that entry came soon after a hold, the far side has taken so many entries in a span. That may
// be its limit: it is, for a window that is no longer than the span.
//
// If it came later, the interval was only a little too short. If an earlier miss concluded that,
// too, the window is longer than the span. Then the far side has taken so many entries in the time
// that they took and a span.
func (s *State) miss(number uint32, after int64) {
	s.noteLasting()
	s.stride, s.fails, s.slips = 0, 0, s.slips+1
	if s.phase == climbing || s.phase == falling {
		s.known = s.interval
	}
	s.before, s.failedInterval, s.counted = 0, s.known, 0
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

// longer is the known interval, lengthened by a third of a Recover. A bucket lets some of the entries under way through,
// and the interval that their share suggests may be too long: it had little saved up. A window lets none through.
func (s *State) longer() float64 {
	return float64(s.known) * math.Pow(s.config.Recover, -strides[0])
}

// believe takes the count for the limit itself, and not just for a hint. It does so for the first
// and the second refusal only: later, it is unknown what was spent before.
func (s *State) believe(x int64) {
	if s.counted > 0 && s.slips <= 2 && float64(x)*telling > float64(s.counted)*margin {
		s.failedInterval, s.fails = min(s.counted, s.clamp(float64(x)/margin)), 1
	}
}

// missProbe returns to the known interval, because the probe's has failed.
func (s *State) missProbe() {
	if s.returning {
		s.missReturn()
		s.fall(s.known)
		return
	}
	s.failedInterval, s.counted, s.stride = s.trial, 0, 0
	s.fails++
	s.fall(s.known)
}

// gap is by which share the known interval is longer than the one that failed. It is 0 where none
// is known to have failed.
func (s *State) gap() float64 {
	if s.failedInterval == 0 {
		return 0
	}
	return float64(s.known)/float64(s.failedInterval) - 1
}

// patience is the number of successes until the next probe. There are many where the probe can gain
// little.
func (s *State) patience() int {
	cost := float64(s.span) / float64(s.known)
	if gap := s.gap(); gap >= near {
		cost *= eagerness / gap
	} else {
		cost *= rests * float64(uint(1)<<min(s.fails, 2))
	}
	return int(min(cost, math.MaxInt32))
}

// reach is the interval of the next probe, as a share of the known one. It is half way to the one
// that failed, or a little beyond that one if it is near.
func (s *State) reach() float64 {
	if gap := s.gap(); gap >= near {
		return math.Sqrt(1 / (1 + gap))
	}
	return math.Pow(s.config.Recover, strides[s.stride])
}

// proven ends a probe: its interval has gone well for long, and becomes the known one.
func (s *State) proven() (changed bool) {
	if s.idle {
		s.settle()
		return s.set(s.known)
	}
	if s.returning {
		return s.returned()
	}
	s.known, s.before = s.trial, 0
	s.proof, s.fails = 0, 0
	switch gap := s.gap(); {
	case gap <= 0:
		s.failedInterval = 0
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
