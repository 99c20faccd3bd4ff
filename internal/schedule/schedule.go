// Package schedule is the arithmetic of a rate: when may the next entry go? It
// is pure: instants come in as arguments, in nanoseconds on any monotonic
// timeline that is not negative, and no clock, lock or goroutine is involved.
//
// The algorithm is GCRA, the virtual scheduling form of the leaky bucket
// (ITU-T I.371, annex A). All that is remembered of the past is the
// theoretical arrival time, TAT: the instant at which the bucket is full again.
// An entry of cost c moves it to max(TAT, arrival) + c·interval and is allowed
// from the instant TAT − burst·interval on.
//
// Instants inside are counted in units of 1/n of a nanosecond for a rate of n
// (reduced) events per span, so that an interval is a whole number of them and
// nothing is ever rounded. 128 bits hold a hundred years of the finest unit. Clocks,
// however, show whole nanoseconds: an entry that is due in between goes at the next one,
// and that is not counted as lateness, because the roundings would add up. So where the
// TAT lies less than a nanosecond before the arrival, it stands.
package schedule

import "math"

// never is the instant that does not come.
const never = math.MaxInt64

// DefaultSlack is the lateness that is made up where nothing else is said, in
// nanoseconds.
const DefaultSlack = 100e6

// Schedule is one bucket. It is a plain value; whoever holds it guards it.
type Schedule struct {
	ratio
	burst uint64
	slack int64 // lateness that may be made up, in nanoseconds

	tat   wide  // when the bucket is full again, in units
	late  int64 // how late the system granted the last entry, as far as not made up
	floor int64 // no entry counts as having arrived before: the last change of plan
	held  int64 // no entry is admitted before
	ends  bool  // the end of the hold has yet to leave one token

	last    int64    // when the last entry was let go, until its caller is known to run
	lost    uint64   // tokens that were forfeited to lateness beyond the slack
	part    uint64   // and so many units of one more
	past    *history // nil: refunds have not been asked for
	changed int64    // what was granted before, without a history, gets nothing back
}

// ratio is a rate in lowest terms: per units a nanosecond, step units a token.
// A step of zero means that there is no limit.
type ratio struct{ per, step uint64 }

func reduce(n, span int64) ratio {
	if n <= 0 {
		return ratio{per: 1}
	}
	a, b := uint64(n), uint64(span)
	for b != 0 {
		a, b = b, a%b
	}
	return ratio{per: uint64(n) / a, step: uint64(span) / a}
}

// New returns a full bucket. n events per span of nanoseconds; n of 0 means no
// limit. A burst of 0 means 1; a slack of 0 means DefaultSlack, a negative one
// none.
func New(n, span int64, burst int, slack int64) Schedule {
	if burst == 0 {
		burst = 1
	}
	switch {
	case slack == 0:
		slack = DefaultSlack
	case slack < 0:
		slack = 0
	}
	return Schedule{ratio: reduce(n, span), burst: uint64(burst), slack: slack}
}

// Burst returns the number of tokens that the full bucket holds.
func (s *Schedule) Burst() int { return int(s.burst) }

// Limit returns the highest cost that can ever be let go: the number of tokens that the
// full bucket holds, or any.
func (s *Schedule) Limit() int {
	if s.step == 0 {
		return math.MaxInt
	}
	return int(s.burst)
}

// Slack returns the lateness that may be made up, in nanoseconds.
func (s *Schedule) Slack() int64 { return s.slack }

// Held returns the instant before which nobody enters.
func (s *Schedule) Held() int64 { return s.held }

// Full reports whether the bucket is full at now and nothing holds it: a new one
// would do the same.
func (s *Schedule) Full(now int64) bool {
	return s.held <= now && !product(uint64(now), s.per).less(s.full())
}

// Arrive returns the instant from which an entry counts that comes at now: now,
// less what the system's late wake-up of the entry before has cost. A bucket
// that has been full for longer than the slack lay idle: the lateness before
// that is of no account.
func (s *Schedule) Arrive(now int64) int64 {
	if s.late > 0 && s.full().plus(product(uint64(s.slack), s.per)).less(product(uint64(now), s.per)) {
		s.late = 0
	}
	return max(now-s.late, s.floor)
}

// Due returns the first instant at which an entry may go that counts from since
// on, costs cost, and comes after ahead tokens' worth of others.
func (s *Schedule) Due(since int64, ahead uint64, cost int) int64 {
	since = max(since, s.floor)
	if s.step == 0 {
		return max(since, s.held)
	}
	tat := s.from(since).plus(product(uint64(cost), s.step))
	if ahead > 0 {
		tat = tat.plus(product(ahead, s.step))
	}
	due := tat.minus(product(s.burst, s.step)).ceil(s.per)
	return max(since, s.held, due)
}

// Take lets an entry go at now that counts from since on and costs cost. Its Due
// must have come. Lateness beyond the slack is lost for good here: that is what
// bounds every window of length w by burst + rate·(w + slack). The mark is for Refund.
func (s *Schedule) Take(now, since int64, cost int) (mark uint64) {
	s.endHold(now)
	since = max(since, s.floor)
	due := now
	if now > since {
		due = s.Due(since, 0, cost)
	}
	s.late = min(max(now-due, 0), s.slack)
	if s.step != 0 {
		s.last = now
		at := max(since, now-s.slack)
		s.forfeit(since, at)
		s.note(s.tat.minus(product(uint64(at), s.per)))
		s.tat = s.from(at).plus(product(uint64(cost), s.step))
	}
	return s.charged(now)
}

// Absent tells that callers of entries that cost out may have got to run only now: they are late, too,
// and come together with whichever entry makes up for lateness. What of the slack they leave is there
// for those after them.
func (s *Schedule) Absent(now int64, out uint64) {
	if s.step == 0 {
		return
	}
	left := max(s.slack-product(out, s.step).ceil(s.per), 0)
	if at := now - left; s.full().plus(wide{0, s.per}).less(product(uint64(at), s.per)) {
		s.floor = max(s.floor, at)
	}
}

// Ran tells that the caller of an entry that was let go at the given instant runs only now. That is the
// system's lateness, too, and lets the caller's next entry count from earlier. It is of no account if
// others have been let go since.
func (s *Schedule) Ran(now, granted int64) {
	if granted != s.last {
		return
	}
	late := s.late + now - granted
	s.late, s.last = min(late, s.slack), 0
	s.forfeit(now-late, now-s.late)
}

// forfeit counts the tokens that are lost if an entry counts from at on, and not from since.
func (s *Schedule) forfeit(since, at int64) {
	if since >= at {
		return
	}
	units := s.from(at).minus(s.from(since)).plus(wide{0, s.part})
	tokens, part := units.div(s.step)
	s.lost, s.part = s.lost+tokens.lo, part
}

// Forfeited returns how many tokens lateness beyond the slack has cost.
func (s *Schedule) Forfeited() uint64 { return s.lost }

// Undo takes back, at now, an entry that did not take place.
func (s *Schedule) Undo(now int64, mark uint64, cost int) { s.refund(now, mark, cost, cost) }

// from returns where the schedule goes on for an entry that counts from since on.
func (s *Schedule) from(since int64) wide {
	at, full := product(uint64(since), s.per), s.full()
	if at.less(full.plus(wide{0, s.per})) {
		return full
	}
	return at
}

// full returns when the bucket is full again. At the end of a hold it has one token at most.
func (s *Schedule) full() wide {
	if h := s.holdEnd(); s.ends && s.tat.less(h) {
		return h
	}
	return s.tat
}

// holdEnd returns the TAT that leaves one token for the end of the hold.
func (s *Schedule) holdEnd() wide {
	return product(uint64(s.held), s.per).plus(product(s.burst-1, s.step))
}

// endHold takes from the bucket what a hold that is over at now leaves no longer. Until then the bucket
// fills as if there were no hold, so that a change of plan meanwhile counts from its own instant.
func (s *Schedule) endHold(now int64) {
	if s.ends && s.held <= now {
		s.ends = false
		s.raise(s.holdEnd())
	}
}

// Settle corrects the cost of an entry, charged with the given mark, to what it actually is. Tokens
// that are missing are a debt. Tokens that come back are there at once, as far as they would be there
// had the entry cost that from the start.
func (s *Schedule) Settle(now int64, mark uint64, cost, actual int) {
	if actual < cost {
		s.Track()
		s.refund(now, mark, cost, cost-actual)
		return
	}
	s.fill(now)
	s.tat = s.tat.plus(product(uint64(actual-cost), s.step))
}

// Fill fills the bucket at now: its tokens come back to it.
func (s *Schedule) Fill(now int64) {
	s.touch(now)
	s.tat = least(s.tat, product(uint64(now), s.per))
}

// touch makes the lateness until now be of no account.
func (s *Schedule) touch(now int64) { s.floor, s.last = max(s.floor, now), 0 }

// SetRate changes the rate at now. The tokens in the bucket stay as many as they
// are, a fraction of the next one included; a debt is paid at the new rate. The
// conversion rounds up to one unit of the new rate, at most a nanosecond.
func (s *Schedule) SetRate(now, n, span int64) {
	ref := s.fill(now)
	s.changed = max(s.changed, now) // what has flowed in was at another rate
	s.rescale(ref, reduce(n, span))
}

// Repace changes the rate as if it had been in force since the instant of the last grant:
// what was to come an interval after it, now comes one of the new intervals after it. A hold since
// then, also one that is over, counts as a grant at its end.
func (s *Schedule) Repace(now, last, n, span int64) {
	s.endHold(now)
	s.touch(now)
	s.changed = max(s.changed, now)
	if !s.ends {
		last = max(last, s.held)
	}
	s.rescale(last, reduce(n, span))
}

// Spend takes all tokens at now, and leaves one there for the instant until.
func (s *Schedule) Spend(now, until int64) {
	s.endHold(now)
	s.touch(now)
	s.late, s.changed = 0, max(s.changed, now+1)
	s.raise(product(uint64(max(now, until)), s.per).plus(product(s.burst-1, s.step)))
}

// rescale converts what of the TAT lies after ref to the next ratio.
func (s *Schedule) rescale(ref int64, next ratio) {
	debt := s.tat.minus(product(uint64(ref), s.per))
	s.part = 0
	s.note(debt)
	s.rescaleLows(next)
	s.tat = product(uint64(ref), next.per)
	switch {
	case s.step != 0:
		s.tat = s.tat.plus(s.convert(debt, next))
	case s.held >= ref:
		// There was no bucket to be emptied by the hold.
		s.tat = s.tat.plus(product(s.burst-1, next.step))
	}
	s.ratio = next
}

// convert returns as many tokens in units of the next ratio, rounded up.
func (s *Schedule) convert(units wide, next ratio) wide {
	tokens, rest := units.div(s.step)
	part, r := product(rest, next.step).div(s.step)
	if r != 0 {
		part = part.plus(wide{0, 1})
	}
	return tokens.times(next.step).plus(part)
}

// SetBurst changes the burst at now. The tokens in the bucket stay as many as
// they are, as far as they fit.
func (s *Schedule) SetBurst(now int64, burst int) {
	if b := uint64(burst); b < s.burst {
		s.Track()
	}
	s.fill(now)
	if b := uint64(burst); b >= s.burst {
		s.tat = s.tat.plus(product(b-s.burst, s.step))
	} else {
		s.tat = s.tat.minus(product(s.burst-b, s.step))
		s.note(s.tat.minus(product(uint64(now), s.per)))
	}
	s.burst = uint64(burst)
}

// Hold, at now, admits no entry before until and leaves one token there for then, so
// that entries don't burst. It only ever lengthens.
func (s *Schedule) Hold(now, until int64) {
	s.endHold(now)
	if until <= s.held {
		return
	}
	s.held, s.ends = until, true
	s.touch(until)
	s.late = 0
	s.changed = max(s.changed, until)
}

// fill brings a TAT of the past up to the instant at which the plan changes, and
// returns that instant.
func (s *Schedule) fill(now int64) int64 {
	s.endHold(now)
	s.touch(now)
	s.raise(product(uint64(now), s.per))
	return now
}
