// Package schedule is the arithmetic of a rate: it says when the next entry may go. It is pure:
// instants come in as arguments, in nanoseconds on any monotonic timeline that is not negative. No
// clock, lock or goroutine is involved.
//
//	s := schedule.New(100, 1e9, 1, 0)  // 100 a second
//	since := s.Arrive(now)
//	if due := s.Due(since, 0, 1); due <= now {
//		s.Take(now, since, 1)
//	}
//
// The algorithm is GCRA, the virtual scheduling form of the leaky bucket (ITU-T I.371, annex A).
// All that is remembered of the past is the theoretical arrival time, TAT: the instant at which the
// bucket is full again. An entry of cost c moves it to max(TAT, arrival) + c·interval. It is
// allowed from burst·interval before that new TAT on.
//
// For a rate of n (reduced) events per span, instants are counted in units of 1/n of a nanosecond.
// So an interval is a whole number of units and nothing is ever rounded. 128 bits hold a hundred
// years of the finest unit.
//
// Clocks, however, show whole nanoseconds: an entry that is due in between goes at the next one.
// Such roundings must not add up. So a TAT less than a nanosecond before the arrival is kept, in
// place of the arrival.
package schedule

import "math"

// never is the instant that does not come.
const never = math.MaxInt64

// DefaultSlack is the slack where none is given, in nanoseconds.
const DefaultSlack = 100e6

// Schedule is one bucket. It is a plain value: its owner guards it.
type Schedule struct {
	ratio
	burst uint64
	slack int64 // lateness that may be made up, in nanoseconds

	tat   wide  // when the bucket is full again, in units
	late  int64 // lateness of the last grant that is not made up yet, at most slack
	floor int64 // the last change of plan: an entry counts as having arrived no earlier
	held  int64 // no entry is admitted before
	began int64 // when the last hold began
	ends  bool  // a hold has begun, and its end has yet to leave one token

	last    int64    // when the last entry was granted; 0: its caller is known to run
	lost    uint64   // tokens that were forfeited to lateness beyond the slack
	part    uint64   // what was forfeited beyond lost, less than a token, in units
	past    *history // nil: no refund has been asked for
	changed int64    // a grant without a history from before this instant gets nothing back
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

// New returns a full bucket for n events per span of nanoseconds. n of 0 means no limit. A burst of
// 0 means 1. A slack of 0 means DefaultSlack, a negative one none.
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

// Limit returns the highest cost that can ever be granted. That is Burst, and any cost where there
// is no limit.
func (s *Schedule) Limit() int {
	if s.step == 0 {
		return math.MaxInt
	}
	return int(s.burst)
}

// Slack returns the lateness that may be made up, in nanoseconds.
func (s *Schedule) Slack() int64 { return s.slack }

// Held returns the instant before which no entry is admitted.
func (s *Schedule) Held() int64 { return s.held }

// Full reports whether the bucket is full at now and not held, so that a new one would do the same.
func (s *Schedule) Full(now int64) bool {
	return s.held <= now && !product(uint64(now), s.per).less(s.full())
}

// Arrive returns the instant from which an entry counts that comes at now. That is now, less the
// lateness that is yet to be made up. A bucket that has been full for longer than the slack lay
// idle: lateness from before that is dropped.
func (s *Schedule) Arrive(now int64) int64 {
	if s.late > 0 && s.full().plus(product(uint64(s.slack), s.per)).less(product(uint64(now), s.per)) {
		s.late = 0
	}
	return max(now-s.late, s.floor)
}

// Due returns the first instant at which an entry may be granted that counts from since on and
// costs cost. ahead is how many tokens the entries before it take.
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

// Take grants an entry at now that counts from since on and costs cost. Its Due must have come.
// Lateness beyond the slack is lost for good here: that bounds every window of length w by burst +
// rate·(w + slack). The mark is for Settle and Undo.
//
// During a hold no entry is due. Then the cost is a debt, which counts from now as that of Settle does.
func (s *Schedule) Take(now, since int64, cost int) (mark uint64) {
	s.endHold(now)
	if s.held > now {
		s.fill(now)
		s.tat = s.tat.plus(product(uint64(cost), s.step))
		return s.charged(now)
	}
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

// Absent says that callers of entries may begin to run only now: entries of a cost of out in all
// were granted earlier. They are late, too, and run at the same time as an entry that makes up for
// lateness. So only what they leave of the slack is there for the entries after them.
func (s *Schedule) Absent(now int64, out uint64) {
	if s.step == 0 {
		return
	}
	left := max(s.slack-product(out, s.step).ceil(s.per), 0)
	if at := now - left; s.full().plus(wide{0, s.per}).less(product(uint64(at), s.per)) {
		s.floor = max(s.floor, at)
	}
}

// Ran says that the caller of the entry granted at that instant runs only now. That is the system's
// lateness, too, and the caller's next entry counts from earlier for it. It has no effect if
// another entry has been granted since.
func (s *Schedule) Ran(now, granted int64) {
	if granted != s.last {
		return
	}
	late := s.late + now - granted
	s.late, s.last = min(late, s.slack), 0
	s.forfeit(now-late, now-s.late)
}

// forfeit counts the tokens that are lost because an entry counts from at on, and not from since.
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

// from returns the TAT to which an entry that counts from since on adds its cost.
func (s *Schedule) from(since int64) wide {
	at, full := product(uint64(since), s.per), s.full()
	if at.less(full.plus(wide{0, s.per})) {
		return full
	}
	return at
}

// full returns when the bucket is full again. At the end of a hold it has at most one token.
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

// endHold empties the bucket but for one token, if a hold is over at now. Until then the bucket
// fills as if there were no hold, so a change of plan during a hold counts from its own instant.
func (s *Schedule) endHold(now int64) {
	if s.ends && s.held <= now {
		s.ends = false
		s.raise(s.holdEnd())
	}
}

// Settle corrects the cost of an entry, charged with the given mark, to the actual one. Tokens that
// are missing are a debt. Tokens that come back are there at once, as far as they would be there if
// the entry had cost that from the start.
func (s *Schedule) Settle(now int64, mark uint64, cost, actual int) {
	if actual < cost {
		s.Track()
		s.refund(now, mark, cost, cost-actual)
		return
	}
	s.fill(now)
	s.tat = s.tat.plus(product(uint64(actual-cost), s.step))
}

// Fill makes the bucket full at now.
func (s *Schedule) Fill(now int64) {
	s.touch(now)
	s.tat = least(s.tat, product(uint64(now), s.per))
}

// touch drops all lateness until now.
func (s *Schedule) touch(now int64) { s.floor, s.last = max(s.floor, now), 0 }

// SetRate changes the rate at now. The number of tokens in the bucket stays, a fraction of the next
// one included. A debt is paid at the new rate. The conversion rounds up to one unit of the new
// rate, at most a nanosecond.
func (s *Schedule) SetRate(now, n, span int64) {
	ref := s.fill(now)
	s.changed = max(s.changed, now) // tokens until now came at another rate
	s.rescale(ref, reduce(n, span))
}

// Repace changes the rate as if it had been in force since the instant of the last grant. What was
// due an interval after that grant is due one of the new intervals after it. A hold since then,
// also one that is over, counts as a grant at its end.
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

// rescale converts to the next ratio the part of the TAT that lies after ref.
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
		// Without a limit there was no bucket for the hold to empty.
		s.tat = s.tat.plus(product(s.burst-1, next.step))
	}
	s.ratio = next
}

// convert returns the same number of tokens in units of the next ratio, rounded up.
func (s *Schedule) convert(units wide, next ratio) wide {
	tokens, rest := units.div(s.step)
	part, r := product(rest, next.step).div(s.step)
	if r != 0 {
		part = part.plus(wide{0, 1})
	}
	return tokens.times(next.step).plus(part)
}

// SetBurst changes the burst at now. The number of tokens in the bucket stays, as far as they fit.
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

// Hold, at now, admits no entry before until, and leaves one token for that instant, so that
// entries don't burst. An until before the end of an earlier hold does nothing.
func (s *Schedule) Hold(now, until int64) {
	s.endHold(now)
	if until <= s.held {
		return
	}
	if s.held <= now {
		s.began = now
	}
	s.held, s.ends = until, true
	s.touch(until)
	s.late = 0
	s.changed = max(s.changed, until)
}

// Resume ends the hold at now. From then on the schedule is as if the hold had been to end at now. Without a
// hold it does nothing.
//
// A hold moves nothing but these fields before it ends; see endHold. All other changes of plan were at now at the
// latest. If the hold began at this very instant, entries granted before it can't be told from later ones by their
// instant. A history tells them apart.
func (s *Schedule) Resume(now int64) {
	if s.held <= now {
		return
	}
	s.held, s.floor, s.changed = now, now, now
	if s.began == now {
		s.Track()
		s.changed = now + 1
	}
}

// fill brings a TAT of the past up to now, at which the plan changes, and returns now.
func (s *Schedule) fill(now int64) int64 {
	s.endHold(now)
	s.touch(now)
	s.raise(product(uint64(now), s.per))
	return now
}
