package adapt

import "math"

// Config has the settings of a State. Recover is between 0 and 1, Backoff above 1.
type Config struct {
	Fastest int64   // nanoseconds: the interval asked for; less than 1 means 1
	Slowest int64   // nanoseconds: the longest interval; less than Fastest means Fastest
	Backoff float64 // the interval × this when throttled
	Recover float64 // the interval × this on a success
	GiveUp  int     // throttled generations in a row after which GaveUp reports true; 0: never
}

// A mark has the number of the change in bits 32 to 62, and that of the entry below.
const (
	control = 1 << 63   // a mark's bit: the entry is in the control group
	changes = 1<<31 - 1 // the number of a change, which wraps around
)

// split returns what Grant has put into a mark.
func split(mark uint64) (change, number uint32, slow bool) {
	return uint32(mark>>32) & changes, uint32(mark), mark&control != 0
}

// phase is what a State does at present.
type phase uint8

const (
	climbing phase = iota // no limit is known: every fresh success makes the interval shorter
	falling               // backed off: the first fresh success brings target back
	holding               // at known, until it is time for a probe
	probing               // at trial, for some entries
	judging               // at known again, while the probe's entries are under way
)

// State is an interval and what is remembered of earlier ones. It is a plain value, not safe for
// concurrent use: its owner guards it. The zero State is not valid: use [New].
type State struct {
	config   Config
	interval int64
	giveUp
	probes
	costlyRefusals
	formerLimit
	noise

	change     uint32 // counts the changes of the interval
	generation uint32 // the change that began the generation
	grants     uint32 // counts the entries

	phase phase
	steps int // climbing: successes that made the interval shorter, in this generation; falling: successes so far

	known  int64 // the interval that works
	proof  int   // fresh successes at known; climbing: at the fastest interval
	before int64 // known as it was before the probe that found the present one; 0: that is no longer on trial
	slips  int   // times that known failed, without a rest in between
	wrong  int   // probes in a row that were adopted and failed later
	fails  int   // probes in a row that failed

	target    int64  // falling: the interval to return to
	fell      uint32 // falling: the change that began the generation before
	atMost    bool   // falling: whatever well and ill tell, the interval gets no longer than target
	well, ill int    // falling: how entries at known came back, from the throttle on
	left      int    // holding: successes until the next probe
}

// New returns the state before anything has come back: its interval is the fastest.
func New(c Config) State {
	c.Fastest = max(c.Fastest, 1)
	c.Slowest = max(c.Slowest, c.Fastest)
	s := State{config: c}
	s.Reset()
	return s
}

// Reset forgets everything. Passes from before it no longer move the interval.
func (s *State) Reset() {
	*s = State{
		config:         s.config,
		interval:       s.config.Fastest,
		change:         (s.change + 1) & changes,
		generation:     (s.change + 1) & changes,
		grants:         s.grants,
		probes:         probes{stride: 1, room: firstRoom},
		costlyRefusals: costlyRefusals{began: never},
	}
}

// Interval returns the time from one entry to the next, in nanoseconds. It is never below Fastest
// nor above Slowest.
func (s *State) Interval() int64 { return s.interval }

// GaveUp reports whether GiveUp generations in a row were throttled since the last Reset. A success of the current
// generation ends such a row, unless less than an eighth of the entries in it came back well.
func (s *State) GaveUp() bool { return s.gaveUp }

// Fresh reports whether s behaves as a new State would. Its interval is the fastest, it knows
// nothing that lengthens it, nor of noise, and no throttle counts towards GiveUp.
func (s *State) Fresh() bool {
	return s.interval == s.config.Fastest && s.known <= s.config.Fastest && !s.gaveUp &&
		s.streak == 0 && s.tooFast == 0
}

// Grant counts an entry that is granted at now, and returns the mark to put into its pass. It
// leaves the interval as it is.
func (s *State) Grant(now int64) (mark uint64) {
	s.grants++
	s.noteAge(now)
	if mark = uint64(s.change)<<32 | uint64(s.grants); s.slowly(s.interval) {
		mark |= control
	}
	return mark
}

// Success takes note that the entry with that mark has come back well. It reports whether that
// moved the interval. An entry that failed for a reason of its own says nothing of the pace: call
// neither Success nor Throttle for it.
func (s *State) Success(mark uint64) (changed bool) {
	change, number, slow := split(mark)
	s.succeeded(s.tells(change), slow)
	if change == s.probe {
		s.passed++
	}
	if !s.current(change) {
		if s.samples(change, number) {
			s.well++
		}
		return false
	}
	s.broughtBack()
	fresh := change == s.change
	switch {
	case s.phase == probing && s.span > 0:
		return fresh && s.proves(number) && s.proven()
	case s.phase == probing:
		return s.endProbe(fresh && number-s.first+1 >= s.length())
	case !fresh:
		return false
	case s.phase == falling:
		if s.steps++; s.steps <= watched && s.span > 0 && s.contradicted() {
			return false
		}
		s.steps = 0
		return s.land()
	case s.phase == judging:
		return s.judge()
	case s.phase == climbing:
		return s.climb()
	case !s.acquitted && !s.proves(number):
		return false
	}
	return s.hold()
}

// Throttle takes note that the entry with that mark has come back throttled. It reports whether
// that moved the interval, and whether it counts: if not, it is noise, and nothing has changed. after is how long
// the far side wants to be left alone, in nanoseconds, or 0. If the throttle counts, the caller must admit no
// entry for so long.
func (s *State) Throttle(mark uint64, after int64) (changed, counts bool) {
	change, number, slow := split(mark)
	if after > 0 {
		s.noise.hold = float64(after) / float64(s.config.Fastest)
	}
	if !s.refused(s.tells(change), slow) {
		if change == s.probe {
			s.excused++
		}
		return false, false
	}
	after = max(0, min(after, math.MaxInt64/outlier))
	if !s.current(change) {
		switch {
		case s.phase == judging && change == s.probe:
			s.noteHint(after)
			s.probeFailed(number)
			s.sum = 0
			s.settle()
		case s.samples(change, number):
			s.ill++
		}
		s.heldFor(after)
		return false, true
	}
	s.fail(s.base(), slow)
	s.inARow()
	s.fell, s.well, s.ill = s.generation, 0, 0
	s.noteHint(after)
	s.failed = number
	switch {
	case s.span > 0 && s.phase == probing && change == s.probe:
		s.missProbe()
	case s.span > 0 && (s.known != 0 || s.grants-s.resumed >= trusted):
		s.ill = 1
		s.miss(number, after)
	case s.phase == climbing && s.steps == 0, s.phase == falling:
		// Nothing has come back well on the way here, or nothing does any more.
		s.phase, s.known, s.before, s.proof, s.slips = climbing, 0, 0, 0, 0
	case s.phase == climbing:
		s.arrive((s.change - change) & changes)
	case s.phase == probing && change == s.probe:
		s.probeFailed(number)
		s.fall(s.known)
	default:
		s.ill = 1
		s.slip()
	}
	s.steps = 0
	changed = s.set(s.clamp(float64(s.interval) * s.config.Backoff))
	s.generation = s.change // even where the interval could not grow
	s.heldFor(after)
	return changed, true
}

// current reports whether an entry granted after that change is of this generation. Changes wrap
// around, so their difference is compared.
func (s *State) current(change uint32) bool { return int32((change-s.generation)<<1) >= 0 }

// tells reports whether an entry granted after that change says something of the present interval, or of a probe.
func (s *State) tells(change uint32) bool {
	return s.current(change) || s.phase == judging && change == s.probe
}

// samples reports whether an entry granted after that change went at the known interval that has
// just failed. The caller has made sure that it is not of this generation.
func (s *State) samples(change, number uint32) bool {
	return s.phase == falling && change != s.probe && int32((change-s.fell)<<1) >= 0 &&
		(s.span == 0 || int32(number-s.failed) >= 0)
}

// set makes x the interval. If that is longer, a generation ends.
func (s *State) set(x int64) (changed bool) {
	was := s.interval
	s.interval = x
	s.change = (s.change + 1) & changes
	s.began, s.provesFrom = never, 0
	if x > was {
		s.generation = s.change
	}
	return x != was
}

// base is the interval that is not a probe's.
func (s *State) base() int64 {
	if s.phase == probing {
		return s.known
	}
	return s.interval
}

// clamp rounds x and keeps it within bounds. NaN becomes the slowest.
func (s *State) clamp(x float64) int64 {
	if !(x < float64(s.config.Slowest)) {
		return s.config.Slowest
	}
	return max(int64(math.Round(x)), s.config.Fastest)
}
