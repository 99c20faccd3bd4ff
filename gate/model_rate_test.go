package gate_test

import (
	"maps"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// bucketModel is the reference of a Rate, in exact fractions of a nanosecond.
type bucketModel struct {
	rate  pace.Rate
	burst int
	slack int64
	full  *big.Rat // the instant at which the bucket is full

	late, floor, held int64
	began             int64 // when the hold began
	ends              bool  // the end of the hold has yet to leave one token
	changed           int64 // what was granted before without being tracked gets nothing back

	// What the bucket has lacked to be full at each instant at which that mattered, in time, from the
	// first entry on that cost more than 1, or the first refund.
	tracked bool
	lacks   []*big.Rat
	dropped int // lacks from before the bucket was full: no entry gets anything back from then
	taken   map[int]takenEntry

	lost uint64   // tokens that lateness beyond the slack has cost
	part *big.Rat // and of one more
}

// takenEntry is an entry that may be settled.
type takenEntry struct {
	at      int64
	tracked bool
	since   int // the number of lacks before it
}

func newBucketModel(r pace.Rate, burst int, slack time.Duration) *bucketModel {
	if slack == 0 {
		slack = 100 * time.Millisecond
	}
	return &bucketModel{rate: r, burst: burst, slack: int64(max(slack, 0)), full: rat(0), held: -1, taken: map[int]takenEntry{}}
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// interval returns the time from one token to the next; 0 for no limit.
func (m *bucketModel) interval() *big.Rat {
	if m.rate.IsUnlimited() {
		return rat(0)
	}
	return big.NewRat(int64(m.rate.Span()), int64(m.rate.Count()))
}

// times returns tokens·interval.
func (m *bucketModel) times(tokens int) *big.Rat {
	return new(big.Rat).Mul(rat(int64(tokens)), m.interval())
}

// from returns the instant from which an entry's tokens count that counts from since: a
// bucket that has been full for a nanosecond or more was idle until then.
func (m *bucketModel) from(since int64) *big.Rat {
	if full := m.whenFull(); full.Cmp(rat(since-1)) > 0 {
		return new(big.Rat).Set(full)
	}
	return rat(since)
}

// whenFull returns when the bucket is full: at the end of a hold it has one token at most.
func (m *bucketModel) whenFull() *big.Rat {
	if h := m.holdEnd(); m.ends && m.full.Cmp(h) < 0 {
		return h
	}
	return m.full
}

func (m *bucketModel) holdEnd() *big.Rat {
	return new(big.Rat).Add(rat(m.held), m.times(m.burst-1))
}

func (m *bucketModel) endHold(now int64) {
	if m.ends && m.held <= now {
		m.ends = false
		m.raise(m.holdEnd())
	}
}

func (m *bucketModel) capacity() int {
	if m.rate.IsUnlimited() {
		return math.MaxInt
	}
	return m.burst
}

func (m *bucketModel) arrive(now int64) int64 {
	if m.late > 0 && new(big.Rat).Add(m.whenFull(), rat(m.slack)).Cmp(rat(now)) < 0 {
		m.late = 0
	}
	return max(now-m.late, m.floor)
}

func (m *bucketModel) due(_, since int64, cost int) int64 { return m.plan(since, nil, cost) }

func (m *bucketModel) plan(since int64, ahead []int, cost int) int64 {
	since = max(since, m.floor)
	at := max(since, m.held)
	if m.rate.IsUnlimited() {
		return at
	}
	due := m.from(since)
	for _, c := range ahead {
		cost += c
	}
	due.Add(due, m.times(cost-m.burst))
	return max(at, ceil(due))
}

// raise lets the bucket not be full before at, and notes what it lacked then.
func (m *bucketModel) raise(at *big.Rat) {
	m.note(at)
	if m.full.Cmp(at) < 0 {
		m.full = new(big.Rat).Set(at)
	}
}

func (m *bucketModel) note(at *big.Rat) {
	lack := new(big.Rat).Sub(m.full, at)
	if lack.Sign() < 0 {
		lack = rat(0)
	}
	if !m.tracked {
		return
	}
	if lack.Sign() == 0 {
		m.dropped += len(m.lacks)
		m.lacks = nil
	}
	m.lacks = append(m.lacks, lack)
}

func (m *bucketModel) take(now, since int64, cost, id int) {
	m.tracked = m.tracked || cost > 1 && !m.rate.IsUnlimited()
	m.endHold(now)
	since = max(since, m.floor)
	due := now
	if now > since {
		due = m.due(now, since, cost)
	}
	m.late = min(max(0, now-due), m.slack)
	if !m.rate.IsUnlimited() {
		m.note(rat(max(since, now-m.slack)))
		m.forfeit(since, max(since, now-m.slack))
		m.full = m.from(max(since, now-m.slack))
		m.full.Add(m.full, m.times(cost))
	}
	m.taken[id] = takenEntry{now, m.tracked, m.dropped + len(m.lacks)}
	delete(m.taken, id-1000)
}

// forfeit counts the tokens between where an entry would have counted from, and where it does.
func (m *bucketModel) forfeit(since, at int64) {
	tokens := new(big.Rat).Sub(m.from(at), m.from(since))
	tokens.Quo(tokens, m.interval())
	if m.part != nil {
		tokens.Add(tokens, m.part)
	}
	whole := new(big.Int).Quo(tokens.Num(), tokens.Denom())
	m.lost += whole.Uint64()
	m.part = tokens.Sub(tokens, new(big.Rat).SetInt(whole))
}

// fill lets a full bucket run over: what is left counts from the instant at which the plan
// changes, or from the end of the hold.
func (m *bucketModel) fill(now int64) (ref int64) {
	m.endHold(now)
	m.floor = max(m.floor, now)
	m.raise(rat(now))
	return now
}

func (m *bucketModel) setRate(now int64, r pace.Rate) {
	ref := m.fill(now)
	m.changed = max(m.changed, now)
	m.part = nil
	missing := rat(0) // tokens
	switch {
	case !m.rate.IsUnlimited():
		missing.Sub(m.full, rat(ref)).Quo(missing, m.interval())
	case m.held >= now:
		missing.SetInt64(int64(m.burst - 1))
	}
	m.note(rat(ref))
	old := m.interval()
	m.rate = r
	for _, l := range m.lacks {
		if old.Sign() == 0 || r.IsUnlimited() {
			l.SetInt64(0)
			continue
		}
		unit := new(big.Rat).SetFrac(big.NewInt(1), m.interval().Denom())
		l.Quo(l.Mul(l.Quo(l, old), m.interval()), unit)
		l.Mul(rat(ceil(l)), unit)
	}
	// They take so long at the new rate, rounded up to 1/n of a nanosecond, n reduced.
	debt := missing.Mul(missing, m.interval())
	unit := rat(1)
	if !r.IsUnlimited() {
		unit.SetFrac(big.NewInt(1), m.interval().Denom())
	}
	debt.Quo(debt, unit)
	m.full = new(big.Rat).Mul(rat(ceil(debt)), unit)
	m.full.Add(m.full, rat(ref))
}

func (m *bucketModel) setBurst(now int64, burst int) {
	m.tracked = m.tracked || burst < m.burst && !m.rate.IsUnlimited()
	m.fill(now)
	m.full = new(big.Rat).Add(m.full, m.times(burst-m.burst))
	if burst < m.burst {
		m.note(rat(now))
	}
	m.burst = burst
}

func (m *bucketModel) hold(now, until int64) {
	m.endHold(now)
	if until <= m.held {
		return
	}
	if m.held <= now {
		m.began = now
	}
	m.held, m.floor, m.late, m.ends = until, max(m.floor, until), 0, true
	m.changed = max(m.changed, until)
}

func (m *bucketModel) resume(now int64) {
	if m.held <= now {
		return
	}
	m.held, m.floor, m.changed = now, now, now
	if m.began == now { // entries of this instant from before the hold get nothing back
		m.tracked, m.changed = m.tracked || !m.rate.IsUnlimited(), now+1
	}
}

// settle gives back what would be there had the entry cost less from the start: what the bucket would
// have turned away since is lost.
func (m *bucketModel) settle(now int64, id, cost, actual int) {
	m.tracked = m.tracked || !m.rate.IsUnlimited() // the first Settle begins the account
	m.endHold(now)
	m.floor = max(m.floor, now)
	if actual >= cost {
		m.fill(now)
		m.full = new(big.Rat).Add(m.full, m.times(actual-cost))
		return
	}
	if m.rate.IsUnlimited() {
		return
	}
	m.refund(now, id, cost, cost-actual)
}

// refund gives back tokens of an entry.
func (m *bucketModel) refund(now int64, id, cost, tokens int) {
	m.note(rat(now))
	e, back := m.taken[id], m.times(tokens)
	if lack := new(big.Rat).Sub(m.full, rat(now)); lack.Cmp(back) < 0 {
		back = lack
		if lack.Sign() < 0 {
			back = rat(0)
		}
	}
	if !e.tracked {
		left := new(big.Rat).Sub(m.times(cost), rat(now-e.at))
		if left.Sign() < 0 || e.at < m.changed {
			left = rat(0)
		}
		if left.Cmp(back) < 0 {
			back = left
		}
	}
	// Of lacks from before the entry was tracked nothing is known but that it was not less than that.
	rest := new(big.Rat).Set(back)
	since := m.lacks[max(0, e.since-m.dropped):]
	for _, l := range since {
		if l.Cmp(rest) < 0 {
			rest.Set(l)
		}
	}
	for _, l := range since {
		l.Sub(l, rest)
	}
	m.full = new(big.Rat).Sub(m.full, rest)
}

// undo takes an entry back. It has begun the account if it costs more than 1, and that goes on.
func (m *bucketModel) undo(now int64, id, cost int) {
	m.endHold(now)
	m.floor = max(m.floor, now)
	if !m.rate.IsUnlimited() {
		m.refund(now, id, cost, cost)
	}
	delete(m.taken, id)
}

func (m *bucketModel) traces(cost int) bool {
	return cost > 1 && !m.tracked && !m.rate.IsUnlimited()
}

func (m *bucketModel) clone() modelLimit {
	c := *m
	c.lacks = nil
	for _, l := range m.lacks {
		c.lacks = append(c.lacks, new(big.Rat).Set(l))
	}
	c.taken = maps.Clone(m.taken)
	return &c
}

// rest: while no entry waits, the state leaves the lock, which ends what is over.
func (m *bucketModel) rest(now int64) {
	if m.held <= now && !m.tracked {
		m.endHold(now)
	}
	if !m.tracked && m.held <= now && m.late > 0 {
		m.arrive(now) // forgets the lateness of long ago
	}
}

func (m *bucketModel) inUse(int64) int  { return 0 }
func (m *bucketModel) heldUntil() int64 { return m.held }
func (m *bucketModel) idle(now int64) bool {
	return m.held <= now && m.whenFull().Cmp(rat(now)) <= 0
}

func (m *bucketModel) fresh() int64 { return max(m.held, ceil(m.whenFull())) }

func ceil(r *big.Rat) int64 {
	q, rest := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// wholeRates have intervals of whole nanoseconds.
var wholeRates = []pace.Rate{
	pace.PerSecond(2), pace.PerSecond(1000), pace.Every(1500 * time.Millisecond), pace.PerMinute(1), pace.Unlimited(),
}

var fractionRates = []pace.Rate{
	pace.PerSecond(7), pace.Per(3, 100*time.Millisecond), pace.Per(997, time.Minute), pace.Per(12_347, 24*time.Hour), pace.PerHour(3600), pace.Unlimited(),
}

// drawRates draws rates of all kinds: prime, odd, fast and slow ones.
func drawRates(t *rapid.T, whole bool) []pace.Rate {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pace.Rate {
		span := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, int64(3*time.Second)), rapid.Int64Range(1, int64(24*time.Hour))).Draw(t, "span")
		n := 1
		if !whole {
			n = rapid.OneOf(rapid.IntRange(1, 1000), rapid.IntRange(1, 1e6)).Draw(t, "n")
		}
		return pace.Per(n, time.Duration(span))
	}), 3, 3).Draw(t, "rates")
}

func TestModelRate(t *testing.T) {
	kinds := []modelKind{opEnter, opEnter, opEnter, opEnter, opDeadline, opTry, opTry, opCancel, opAdvance, opAdvance, opNext, opNext, opIdle,
		opSettle, opLeave, opHold, opResume, opRate, opBurst, opStats}
	// None is a multiple of an interval: an alarm rings when nothing else happens.
	lates := []time.Duration{0, 0, 0, time.Millisecond + 333, 3*time.Millisecond + 777, 30*time.Millisecond + 111}
	checkModel(t, lates, func(t *rapid.T, late time.Duration) func(*stage) error {
		rates, kinds := append(fractionRates, drawRates(t, false)...), kinds
		if rapid.Bool().Draw(t, "whole") {
			rates = append(wholeRates, drawRates(t, true)...)
			if late == 0 {
				kinds = append(kinds, opTie, opTie)
			}
		}
		first := rapid.SampledFrom(rates).Draw(t, "rate")
		burst := rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 9), rapid.IntRange(1, 100_000)).Draw(t, "burst")
		slack := rapid.SampledFrom([]time.Duration{0, -1, 12 * time.Millisecond, time.Second}).Draw(t, "slack")
		ops := drawOps(t, kinds...)
		return func(s *stage) error {
			p := newRatePlot(s, rates, first, burst, slack, late)
			return p.run(ops)
		}
	})
}

// The first entry that costs more than 1 is taken back or has never been admitted, by the order of an alarm
// and the end of its context at one instant. The reference goes on with both until a refund shows which.
func TestModelRateTakenBack(t *testing.T) {
	const spent, head = 0, 7 // entries of cost 1 and 3
	ops := []modelOp{
		{kind: opEnter, a: spent}, {kind: opEnter, a: spent}, {kind: opEnter, a: spent},
		{kind: opTie, a: head}, // its context ends when it is due
		{kind: opNext, some: true},
		{kind: opEnter, a: spent}, {kind: opEnter, a: spent}, {kind: opEnter, a: spent}, // on the account, or not
		{kind: opAdvance, a: 2},
		{kind: opSettle, a: 15}, // the first of these costs nothing
		{kind: opEnter, a: spent},
		{kind: opStats},
	}
	const first, tied = 5, 3 // the numbers of the calls
	seen := map[bool]bool{}
	for i := range 100 {
		mock := i%2 == 0 // there the context ends first
		err := play(t, mock, 0, func(s *stage) error {
			p := newRatePlot(s, nil, pace.PerSecond(2), 3, 0, 0)
			err := p.run(ops)
			if s.real[tied].err == errGone {
				if !p.settled[first] || len(p.possible) != 1 {
					t.Errorf("settled: %v; %d references fit, want 1", p.settled, len(p.possible))
				}
				seen[p.modelLimit.(*bucketModel).taken[first].tracked] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the gate has done only one of them: %v", seen)
	}
}

// newRatePlot returns a Rate and its reference, whose rate is changed to others of rates.
func newRatePlot(s *stage, rates []pace.Rate, first pace.Rate, burst int, slack, late time.Duration) *plot {
	g := gate.NewRate(first, &gate.RateOptions{Burst: burst, Slack: slack, Clock: s.clock})
	p := newPlot(s, g, newBucketModel(first, burst, slack), late)
	p.costs = func(a int64) int {
		burst := p.modelLimit.(*bucketModel).burst
		if a%16 == 1 {
			return burst + 1
		}
		return 1 + int(a/3)%burst*int(a%2)
	}
	p.adjust = func(q *modelQueue, id, cost, actual int) {
		q.change(func() { q.modelLimit.(*bucketModel).settle(q.now, id, cost, actual) })
	}
	change := func(f func(m *bucketModel, now int64)) {
		p.each(func(q *modelQueue) {
			q.change(func() { f(q.modelLimit.(*bucketModel), q.now) })
		})
	}
	p.change = func(o modelOp) bool {
		switch o.kind {
		case opHold:
			d := time.Duration(o.a+o.b) * time.Millisecond
			if g.Hold(d); d > 0 {
				change(func(m *bucketModel, now int64) { m.hold(now, now+int64(d)) })
			}
		case opResume:
			g.Resume()
			p.each(func(q *modelQueue) {
				q.refund(func() { q.modelLimit.(*bucketModel).resume(q.now) })
			})
		case opRate:
			r := rates[o.a%int64(len(rates))]
			g.SetRate(r)
			change(func(m *bucketModel, now int64) { m.setRate(now, r) })
		case opBurst:
			n := 1 + int(o.a)%6
			g.SetBurst(n)
			change(func(m *bucketModel, now int64) { m.setBurst(now, n) })
		default:
			return false
		}
		return true
	}
	return p
}
