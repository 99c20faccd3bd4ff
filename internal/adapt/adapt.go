// Package adapt is the arithmetic of an interval that follows an unknown limit. When an entry comes
// back, as a success or throttled, a [State] says how long the interval between entries is now. It
// is pure: instants come in as arguments, and no clock, lock or goroutine is involved.
//
//	s := adapt.New(adapt.Config{Fastest: 10e6, Slowest: 60e9, Backoff: 2, Recover: 0.9})
//	mark := s.Grant(now)     // an entry is granted
//	s.Throttle(mark, 0)      // it came back throttled
//	next := s.Interval()     // 20e6: twice as long
//
// A [Slots] is the same for a limit on the entries in flight. What follows is about the State.
//
// # Words
//
// An entry is granted and comes back, one round trip later, as a success or as a throttle.
//
// A generation lasts until the interval grows. A pass of an earlier generation moves nothing.
//
// A success is fresh if its entry was granted after the last change of the interval, shorter or
// longer. Only a fresh success has seen what the change did.
//
// The known interval is the shortest one that is taken to work. A probe is a few entries at a
// shorter one.
//
// # Noise
//
// A refusal counts only if slowing down would help. A far side may refuse a share of the entries whatever
// the pace: one bad node behind a balancer does, or an item that is refused each time. That share is noise.
//
// After an interval has failed, entries go slower anyway. Those that go clearly slower are the control group, and
// their share of refusals is the noise. A refusal counts as a throttle only if refusals have become more frequent than
// that. As long as no noise is known, each one counts. Once the control group has met noise, the interval that
// seemed to fail gets another trial. See noise.go for the test and its numbers.
//
// The test does not look for a rate, as BBR does, nor for a gradient, as PCC Vivace does. Both need many
// entries at each pace, and an entry that is refused is dear. It shares their idea: compare two paces, and believe
// only what differs.
//
// # The simple rule
//
// A throttle multiplies the interval by Backoff, once a generation, however many of the entries
// under way come back throttled. A fresh success multiplies it by Recover. As long as no limit has
// been met, that is all.
//
// It is the multiplicative decrease (of the rate) of TCP (Jacobson, Congestion Avoidance and
// Control, 1988). It acts once per loss event, as NewReno does (RFC 6582), and moves once per round
// trip.
//
// A program that keeps to this rule runs into the limit again and again. It loses half a round trip
// at double the interval each time. At the limit, every second call may be refused until the first
// refusal is back.
//
// # The rule used here
//
// When an interval fails that was approached from slower ones, the one before it is known to work.
// Then:
//
//   - Back in one step. A throttle multiplies the interval by Backoff. The first success at that
//     pace brings the known interval back. CUBIC (RFC 9438, and the adaptive retry mode of the AWS
//     SDKs) also remembers the rate of the last loss and returns to it quickly. Here the known
//     interval is not the one that failed, so the way back need not slow down.
//
//   - Probes. The interval stays until some entries have succeeded at it. Then a few entries are
//     sent at a shorter one, and the known one returns at once, before the first answer is back. If
//     one of them is throttled, its generation has ended: that is no reason to slow down, because
//     that pace is over. BBR probes in this way (Cardwell and others, BBR: Congestion-Based
//     Congestion Control, 2016: a short pulse above the rate, then back without waiting for the
//     answer). It makes a probe cheap where round trips are long. Where they are short, the
//     throttle comes during the probe and counts like any other. If all of the probe comes back
//     well, its interval is the known one. The next probe follows at once, in a longer stride: the
//     convex part of CUBIC's curve. So a limit that has doubled is found in a few round trips.
//
//   - Rarely. A probe that fails makes the next one smaller, down to a third of a Recover, and then
//     large again. The wait between two probes doubles from 24 to 96 successes.
//
//   - Long enough. A far side that saves tokens up lets a probe pass that spends fewer than it has
//     saved. So a probe spends a number of tokens, its room, which is learned. The room doubles
//     when a known interval fails that a probe had found. When an entry of a probe is refused, the
//     room shrinks towards twice what had been spent.
//
//   - When the known interval fails, the far side has changed, or noise was taken for a limit. The
//     interval is lengthened by a third of a Recover. Where the round trip is long, the entries
//     under way at that moment say much more. The share of them that came back well is the share
//     of their rate that the far side takes.
//
//   - Forgotten. When the backed off interval fails, too, before anything came back well, nothing
//     is known any more. The simple rule applies again.
//
//   - Costly refusals. The far side may say how long to keep away (Retry-After), and that may be
//     many intervals. Then all of this is done more carefully. A probe stays at its interval until
//     that has gone well for two such spans. The rest after a probe that failed is as long as 16 of
//     them. A far side that counts by windows takes as many entries in a span as it took since the
//     last hold. See costly.go.
//
// None of this needs to know the latency: all of it is counted in entries. A success must be fresh,
// so the steps keep to round trips by themselves.
//
// # What it does not do
//
// Where the latency varies by a tenth of an interval or more, some calls reach the far side too close together at
// any pace near its limit. A far side without a burst refuses them. Most of those refusals count, and double the
// interval for a round trip. A fixed pace, known beforehand, can't do well there either. A far side with a
// burst bears more of that, up to a few intervals.
//
// It needs some refusals to learn what noise is. Where each of these holds all entries for many intervals, it learns too
// slowly: with 5 % of such noise, little goes through. A limit beside noise costs more than a limit alone: with round trips of 40 intervals and 2 % of
// noise, four fifths of the limit are used. The simulation beside the tests has the figures.
package adapt

import "math"

const (
	rest     = 24 // successes between a probe that failed and the next one, if it was the first to fail
	longRest = 96 // the same after many that failed
	sound    = 32 // successes after which an interval is no longer on trial
	seasoned = 16 // successes after which a probe that fails tells how much the far side had saved
	asked    = 96 // successes at the fastest interval after which it is the known one
	trusted  = 8  // entries that it takes to trust the share of them that came back well

	little = 1.0 / 8 // a smaller share that came back well is next to nothing, for GiveUp

	firstRoom = 2    // tokens that the first probe spends
	mostRoom  = 6    // the most tokens that a probe spends; more costs too many refusals where round trips are long
	shrink    = 0.8  // a probe makes the room smaller by at most this factor
	fewest    = 32.0 // a probe is fast enough to spend its room in this many entries
	margin    = 1.04 // the known interval is this much longer than the one that the share suggests
)

// strides say how much shorter a probe's interval is, as powers of Recover.
var strides = [...]float64{1.0 / 3, 1, 3}

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
	streak   int   // generations throttled in a row
	yield    tally // how entries came back since the first of them
	gaveUp   bool
	costlyRefusals
	noise

	change     uint32 // counts the changes of the interval
	generation uint32 // the change that began the generation
	grants     uint32 // counts the entries

	phase phase
	steps int // climbing: successes that made the interval shorter, in this generation

	known  int64 // the interval that works
	proof  int   // fresh successes at known; climbing: at the fastest interval
	before int64 // known as it was before the probe that found the present one; 0: that is no longer on trial
	slips  int   // times that known failed, without a rest in between
	wrong  int   // probes in a row that were adopted and failed later
	fails  int   // probes in a row that failed

	target    int64  // falling: the interval to return to
	fell      uint32 // falling: the change that began the generation before
	sampled   bool   // falling: well and ill tell which share of known's rate the far side takes
	reverted  bool   // falling: target is what before was
	well, ill int    // falling: how entries at known came back, from the throttle on
	left      int    // holding: successes until the next probe
	stride    int    // the next probe's, an index of strides
	room      float64
	roomy     bool   // a refused probe has set the room
	trial     int64  // the probe's interval
	probe     uint32 // the probe's change of the interval
	first     uint32 // the probe's first entry
	length    uint32 // how many entries the probe has
	passed    uint32 // how many of them came back well
	idle      bool   // the probe's entries came too slowly to prove anything
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
		config:     s.config,
		interval:   s.config.Fastest,
		change:     (s.change + 1) & changes,
		generation: (s.change + 1) & changes,
		grants:     s.grants,
		stride:     1,
		room:       firstRoom,
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
	if s.phase == probing && s.grants-s.first+1 == s.length {
		// Entries that went slower than allowed do not show that the pace is allowed (RFC 7661).
		s.idle = now-s.began > s.known+2*int64(s.length)*s.trial
	}
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
		return s.endProbe(fresh && number-s.first+1 >= s.length)
	case !fresh:
		return false
	case s.phase == falling:
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
	s.hinted = s.hinted || after > 0
	if !s.refused(s.tells(change), slow) {
		return false, false
	}
	after = max(0, min(after, math.MaxInt64/outlier))
	s.held = s.held || after > 0
	if !s.current(change) {
		switch {
		case s.phase == judging && change == s.probe:
			s.noteHint(after)
			s.probeFailed(number)
			s.excused = 0
			s.settle()
		case s.samples(change, number):
			s.ill++
		}
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
	return changed, true
}

// inARow counts a throttled generation towards GiveUp.
func (s *State) inARow() {
	if s.config.GiveUp == 0 {
		return
	}
	s.yield = s.yield.shrunk(float64(s.config.GiveUp))
	s.yield.add(true)
	if s.streak++; s.streak >= s.config.GiveUp {
		s.gaveUp = true
	}
}

// broughtBack ends the row of throttled generations, unless next to nothing has come back well in it.
func (s *State) broughtBack() {
	if s.streak == 0 {
		return
	}
	if s.yield.add(false); s.yield.all-s.yield.refused >= little*s.yield.all {
		s.streak, s.yield = 0, tally{}
	}
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
		(s.span == 0 || number-s.failed <= sampling)
}

// set makes x the interval. If that is longer, a generation ends.
func (s *State) set(x int64) (changed bool) {
	was := s.interval
	s.interval = x
	s.change = (s.change + 1) & changes
	s.started, s.oldEnough = false, false
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

// climb makes the interval shorter, as no limit is known.
func (s *State) climb() (changed bool) {
	was := s.interval
	if was > s.config.Fastest {
		s.steps++
		changed = s.set(s.clamp(float64(was) * s.config.Recover))
	}
	if s.interval > s.config.Fastest {
		return changed
	}
	if s.slow.refused == 0 {
		s.noise = noise{} // nothing is known of a limit, nor of noise
	}
	if was > s.config.Fastest {
		return changed
	}
	if s.proof++; s.proof >= asked {
		s.known = s.config.Fastest
		s.settle()
	}
	return false
}

// arrive notes the limit: an interval that was reached by climbing has failed. It was in force ago
// changes before the present one. The interval one step before that did not fail.
func (s *State) arrive(ago uint32) {
	s.known = s.clamp(float64(s.interval) * math.Pow(s.config.Recover, -float64(ago)-1))
	s.proof, s.fails, s.wrong, s.stride = 0, 0, 0, 0
	s.fall(s.known)
	s.sampled = false // its entries went at several intervals
}

// slip looks for another interval, because the known one has failed.
func (s *State) slip() {
	s.stride = 1
	s.fails = 0
	if s.before != 0 {
		// A probe had found it and went well only because the far side had saved tokens up.
		s.room = min(max(2*s.room, 1), mostRoom)
		s.wrong++
		s.fall(s.before)
		s.before, s.reverted = 0, true
		return
	}
	s.wrong = 0
	s.fall(s.clamp(s.longer()))
}

// fall starts to wait for a success at the backed off interval. After it, the interval returns to
// the target.
func (s *State) fall(target int64) {
	s.phase, s.target, s.reverted, s.sampled = falling, target, false, true
}

// land returns to the target, or to the interval that the share of the entries under way suggests.
func (s *State) land() (changed bool) {
	x := s.target
	if n := s.well + s.ill; s.sampled && n >= trusted {
		// The first of them is no sample: counting began because it was throttled.
		share := float64(n-1) / float64(max(s.well, 1))
		if share > 1.05 {
			share *= margin
		}
		told := s.clamp(float64(s.known) * share)
		switch {
		case s.span > 0:
			x = s.landing(float64(told))
		case s.reverted:
			x = min(x, max(told, s.clamp(float64(s.known)*math.Pow(s.config.Recover, -strides[0]))))
		default:
			x = max(x, told)
		}
	}
	x = min(x, s.interval)
	if s.span > 0 {
		s.believe(x)
	}
	if x != s.known {
		s.known, s.proof = x, 0
	}
	s.settle()
	return s.set(x)
}

// settle stays at the known interval until it is time for a probe.
func (s *State) settle() {
	s.phase = holding
	s.left = min(rest<<min(s.fails+s.wrong, 8), longRest)
	if s.span > 0 {
		s.left = max(s.left, s.patience())
	}
}

// hold counts a success at the known interval.
func (s *State) hold() (changed bool) {
	if s.proof++; s.proof >= sound && s.before != 0 {
		s.before, s.wrong = 0, 0
	}
	if s.left--; s.left > 0 && !s.acquitted {
		return false
	}
	s.slips = 0
	if !s.acquitted {
		s.works(s.known)
	}
	if !s.startProbe() {
		s.settle()
		return false
	}
	return true
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
	if s.trial >= s.known {
		return false
	}
	s.phase = probing
	s.first, s.passed, s.idle = s.grants+1, 0, false
	s.length = uint32(math.Ceil(s.room/s.gain())) + 2
	s.set(s.trial)
	s.probe = s.change
	return true
}

// gain is how many tokens an entry of the probe spends beyond one at the known interval.
func (s *State) gain() float64 { return float64(s.known)/float64(s.trial) - 1 }

// endProbe ends the probe when all its entries are granted. If complete, the last of them has come
// back well. If not, the answers are awaited at the known interval. A success ends it and not a
// grant, because only a pass moves the interval.
func (s *State) endProbe(complete bool) (changed bool) {
	if s.grants-s.first+1 < s.length {
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
func (s *State) judge() (changed bool) {
	if s.idle || s.passed < (s.length+1)/2 {
		s.settle()
		return false
	}
	return s.adopt()
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

// clamp rounds x and keeps it within bounds. NaN becomes the slowest.
func (s *State) clamp(x float64) int64 {
	if !(x < float64(s.config.Slowest)) {
		return s.config.Slowest
	}
	return max(int64(math.Round(x)), s.config.Fastest)
}
