package adapt

import "math"

// SlotsConfig has the settings of a [Slots].
type SlotsConfig struct {
	Most    int64   // the highest limit, and the first; less than 1 means 1
	Least   int64   // the lowest limit; less than 1 means 1, more than Most means Most
	Backoff float64 // the limit is divided by this when the far side refuses; above 1
	Latency int64   // nanoseconds: an entry that takes longer counts as refused; 0: none does
}

// Slots is a limit on the entries in flight that follows an unknown limit of the far side. It begins with Most
// and never leaves [Least, Most]. Instants are arguments, in nanoseconds.
//
//	s := adapt.NewSlots(adapt.SlotsConfig{Most: 64, Least: 1, Backoff: 2})
//	mark := s.Grant(now, 1, 64)  // an entry for 1 slot is granted; with it, 64 slots are in use
//	s.Refused(later, mark, 0)    // it came back refused
//	n := s.Limit()               // 32
//
// # One idea
//
// A refusal is a word about the limit only if refusals have become more frequent than they are where the limit
// is not their cause. That share is called noise: one bad node, another client, an item that is always refused.
//
// It is measured at limits that differ by half or more, see [Slots.noise]. A cumulative sum test (Page,
// Continuous Inspection Schemes, 1954) compares it with the answers of the present generation. The test weighs
// the noise against the noise + [worseBy], and decides at odds of [decisiveOdds] to 1 (Wald, Sequential Tests of
// Statistical Hypotheses, 1945). With no noise known, a single refusal decides.
//
// # The rule
//
// A generation lasts until the limit shrinks. Entries of an earlier generation do not change it, so a burst of
// refusals does so once.
//
//   - Nothing known. The limit is divided by Backoff when the test decides, once a generation. That is the
//     multiplicative decrease of TCP (Jacobson, Congestion Avoidance and Control, 1988).
//   - Proven. A limit is proven when as many slots as were in use at it have come back well. So it takes one
//     round trip. A limit that was never full proves only what was in use (RFC 7661), so the limit does not
//     grow while fewer entries are in flight.
//   - Trials. A higher limit is tried once the present one is proven. If one is known to fail, that is halfway
//     between the two (BIC, Xu, Harfoush and Rhee, 2004). Otherwise the trials get larger by powers of 2.
//   - A trial that fails costs a few refused entries and no goodput: the slots of the far side stay full. The
//     proven limit comes back at once. Each refused entry of that trial is paid for by successes before the
//     next trial, so the share of refused entries is bounded.
//   - When the proven limit itself fails, the one before comes back if it was proven lately. Otherwise the limit
//     shrinks by a tenth, and if that fails, too, by Backoff.
//   - Costly refusals. If the entry of a failed trial tells to stay away for a time, no trial begins for
//     [costlyRest] times as long.
//
// Latency counts as refusals do: an entry that took longer than the ceiling is refused. Without a ceiling, no
// latency is looked at, so a limit can't drift with it.
//
// # What it does not do
//
// Above a noise of [mostSlotNoise], every refusal counts, so the limit goes down to Least. That is an incident, and
// the limit stays low until it is over.
//
// The test finds an excess of about 0.05 over the noise, and that takes some fifty answers. So with noise a limit
// can be kept, or tried, that adds 0.05 to the share of refused entries. With few slots, or a number of slots that
// changes, it is up to 0.15. Goodput does not suffer from that.
type Slots struct {
	config SlotsConfig

	limit  int64
	level  int   // of the limit, see levelOf
	top    int   // the level of Most
	proven int64 // the highest limit that is proven; 0: none
	failed int64 // the last limit that failed; it is of use if it is above proven
	before int64 // proven as it was before the present one; 0: that is no longer on trial
	age    int64 // successes since proven changed

	begun      bool   // an entry was granted
	first      int64  // at that instant, from which latency is counted
	change     uint32 // counts the changes of the limit
	generation uint32 // the change that began the generation
	peak       int64  // the most slots that were in use since the change
	well       int64  // slots that have come back well since the change

	trial    uint32 // the change that began the last trial that failed; 0: none
	failures int    // trials that failed in a row
	wait     int64  // successes until the next trial
	rest     int64  // no trial begins before that instant
	stride   int64  // how much larger the next trial is, if no limit is known to fail

	excess                // refusals that noise does not explain
	noisy   float64       // the last share that was measured where the limit is not the cause
	steady  tally         // answers at the proven limit, since it was cut
	answers [levels]tally // by the level of the limit at the grant
	touched bool          // an entry was refused: there is something to forget
}

// The parameters of the test. The simulation beside the tests has set them.
const (
	decisiveOdds = 50.0  // the odds at which the test decides
	leastNoise   = 0.001 // the noise is taken to be at least this; then one refusal decides
	worseBy      = 0.05  // the test looks for refusals that are more frequent by this

	// mostSlotNoise is the most noise that is believed. If the limit is too high by half, a third is refused.
	mostSlotNoise = 0.25

	// tolerable is a share at the proven limit that counts as noise wherever it comes from. Without it, goodput falls
	// from 90 to 84 % where 2 % are refused at random beside a limit on slots.
	tolerable = 0.02

	// doubtful is the logarithm of the odds above which no trial is proven. Without it, up to 3 % more are refused
	// where there is noise and the number of slots changes.
	doubtful = 1.0

	enough  = 16  // answers from which a share is believed
	plenty  = 64  // answers at lower limits that make those at higher ones needless
	sampled = 128 // answers at lower limits; those at still lower ones are left out
)

// The parameters of the trials.
const (
	// trialPrice is how many successes pay for a refused entry of a trial, so that at most one in 21 is refused. It
	// is twice and four times that when the second and the third trial in a row fail.
	trialPrice = 20

	// trialRounds bounds that price, in round trips. With 12, the goodput of 4 slots at a latency of a fortieth of a
	// phase is 90 %. With 8 it is 97 %.
	trialRounds = 8

	mostRounds  = 64      // bounds the price of all refused entries of a trial, in round trips
	costlyRest  = 16      // no trial for so many times the Retry-After of one that failed
	longestHint = 1 << 57 // a longer Retry-After, of four years, is taken for this
	onTrial     = 8       // round trips after which a proven limit is no longer on trial

	// firstStride says how much larger the first trial is: by one part in so many. With 16, it takes a round trip
	// more to find that the slots have doubled.
	firstStride = 8
)

// NewSlots returns the state before any entry has come back: its limit is the highest.
func NewSlots(c SlotsConfig) Slots {
	c.Most = max(c.Most, 1)
	c.Least = min(max(c.Least, 1), c.Most)
	s := Slots{config: c}
	s.Reset()
	return s
}

// Reset forgets everything. Passes from before it no longer change the limit.
func (s *Slots) Reset() {
	*s = Slots{
		config:     s.config,
		begun:      s.begun,
		first:      s.first, // passes from before are measured by it
		limit:      s.config.Most,
		level:      levelOf(s.config.Most),
		top:        levelOf(s.config.Most),
		change:     s.change + 1,
		generation: s.change + 1,
	}
}

// Limit returns how many slots may be in use.
func (s *Slots) Limit() int64 { return s.limit }

// Fresh reports whether s behaves as a new Slots would: no entry was refused since the last Reset.
func (s *Slots) Fresh() bool { return !s.touched }

// A mark has, from its lowest bit on:
//
//   - 32 bits of the instant of the grant, in parts of the ceiling on latency
//   - whether the entry filled the gate
//   - 7 bits of the level of the limit
//   - 24 bits of the change
const (
	markFull   = 1 << 32
	markLevel  = 33
	markChange = 40

	latencyParts = 1 << 10 // of the ceiling
)

// Grant takes note of an entry granted at now for cost slots, and returns the mark to put into its pass. used is
// how many slots are in use, with those of the entry.
func (s *Slots) Grant(now, cost, used int64) (mark uint64) {
	if !s.begun {
		s.begun, s.first = true, now
	}
	if !s.touched && used <= cost {
		s.peak = 0 // a new Slots knows of no entry before this one
	}
	s.peak = max(s.peak, used)
	mark = uint64(s.change)<<markChange | uint64(s.level)<<markLevel | uint64(uint32(s.parts(now)))
	if used > s.limit-cost { // no other such entry has room
		mark |= markFull
	}
	return mark
}

// parts returns the time since the first grant, in parts of the ceiling. The timeline of a clock begins anew in each
// process. If time counted from there, an entry could be late in one run on a mock clock and in time in the next.
func (s *Slots) parts(now int64) int64 {
	if s.config.Latency == 0 {
		return 0
	}
	return (now - s.first) / max(s.config.Latency/latencyParts, 1)
}

// late reports whether an entry has taken longer than the ceiling, by at least a part of it.
func (s *Slots) late(now int64, mark uint64) bool {
	part := max(s.config.Latency/latencyParts, 1)
	return s.config.Latency > 0 && int64(uint32(s.parts(now))-uint32(mark)) > s.config.Latency/part+1
}

// current reports whether the entry is of this generation, and latest whether it is of the present change. Changes
// wrap around, so their difference is compared.
func (s *Slots) current(mark uint64) bool {
	return int32((uint32(mark>>markChange)-s.generation)<<(markChange-32)) >= 0
}

func (s *Slots) latest(mark uint64) bool { return uint32(mark>>markChange) == s.change&(1<<24-1) }

// Success takes note that the entry with that mark, for cost slots, has come back well at now. It reports whether
// that changed the limit. An entry that failed for a reason of its own says nothing of the limit: call neither
// Success nor Refused for it.
func (s *Slots) Success(now int64, mark uint64, cost int64) (changed bool) {
	if s.late(now, mark) {
		changed, _ = s.Refused(now, mark, 0)
		return changed
	}
	if !s.touched {
		return false // so a gate that was never refused is as good as new
	}
	s.count(mark, true)
	if !s.current(mark) {
		return false
	}
	p := s.noise()
	s.excess.well(p, worseBy)
	s.wait = max(0, s.wait-1)
	if s.age++; s.age > onTrial*s.proven {
		s.before = 0
	}
	if s.limit == s.proven {
		s.steady.add(false)
		return mark&markFull != 0 && s.raise(now)
	}
	if !s.latest(mark) || s.peak <= s.proven && mark&markFull == 0 {
		return false
	}
	if s.well += cost; s.well < min(s.limit, s.peak) || s.sum > doubtful {
		return false
	}
	s.prove()
	return mark&markFull != 0 && s.raise(now)
}

// Refused takes note that the entry with that mark has come back refused at now. It reports whether that changed
// the limit, and whether the refusal counts: it does not if it is noise. after is how long the far side wants to be
// left alone, in nanoseconds, or 0. If the refusal counts, the caller must admit no entry for so long.
func (s *Slots) Refused(now int64, mark uint64, after int64) (changed, counts bool) {
	s.touched = true
	p := s.noise()
	s.count(mark, false)
	if s.trial != 0 && uint32(mark>>markChange) == s.trial&(1<<24-1) {
		s.wait = min(s.wait+s.price(), mostRounds*max(s.proven, 1))
	}
	if !s.current(mark) {
		return false, p <= leastNoise
	}
	if s.limit == s.proven {
		s.steady.add(true)
	}
	if s.excess.refused(p, worseBy); s.sum < math.Log(decisiveOdds) {
		return false, false
	}
	if s.proven > 0 && s.limit > s.proven {
		return s.missTrial(now, after), true
	}
	return s.cut(), true
}

// count counts an answer at the level of the limit at its grant.
func (s *Slots) count(mark uint64, well bool) { s.answers[mark>>markLevel&(1<<7-1)].add(!well) }

// set makes x the limit, or Least if that is more. x is at most Most. If it is lower, a generation ends.
func (s *Slots) set(x int64) (changed bool) {
	was := s.limit
	s.limit = max(x, s.config.Least)
	s.level = levelOf(s.limit)
	s.change++
	s.peak, s.well = 0, 0
	if x < was {
		s.generation = s.change // even at Least
		s.sum = 0
	}
	return s.limit != was
}

// prove notes that what was in use has come back well.
func (s *Slots) prove() {
	s.well = 0
	x := min(s.limit, s.peak)
	if x <= s.proven {
		return
	}
	s.before, s.proven, s.age = s.proven, x, 0
	s.failures, s.wait = 0, 0
	if s.before == 0 {
		s.stride = 0
	}
}

// raise begins a trial, if it is time.
func (s *Slots) raise(now int64) (changed bool) {
	if s.wait > 0 || now < s.rest || s.limit >= s.config.Most {
		return false
	}
	if s.failed == s.limit+1 {
		s.failed, s.stride = 0, 0
	}
	if s.failed > s.limit {
		return s.set(s.limit + (s.failed-s.limit+1)/2)
	}
	s.stride = max(2*s.stride, s.proven/firstStride, 1)
	return s.set(s.limit + min(s.stride, s.config.Most-s.limit))
}

// missTrial ends a trial that failed.
func (s *Slots) missTrial(now, after int64) (changed bool) {
	s.failed, s.trial, s.stride = s.limit, s.change, 0
	s.wait = s.price()
	s.failures++
	if after > 0 {
		s.rest = max(s.rest, now+(costlyRest+1)*min(after, longestHint))
	}
	return s.set(s.proven)
}

// price returns how many successes pay for a refused entry of a trial.
func (s *Slots) price() int64 {
	return min(trialPrice<<min(s.failures, 2), max(trialPrice, trialRounds*s.proven))
}

// cut makes the limit smaller: the proven one has failed, or none is known.
func (s *Slots) cut() (changed bool) {
	failed := max(min(s.limit, s.peak), 1)
	x := int64(float64(failed) / s.config.Backoff)
	switch {
	case s.before > 0:
		x = min(s.before, failed-1)
	case s.proven > 0:
		x = failed - max(failed/10, 1)
	}
	s.failed, s.proven, s.before = failed, 0, 0
	s.age, s.wait, s.failures = 0, 0, 0
	s.steady = tally{}
	return s.set(x)
}
