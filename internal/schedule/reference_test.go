package schedule_test

import (
	"math"
	"math/big"
)

// bucket is the reference for a Schedule: a bucket into which tokens flow, in exact
// fractions. Its level follows a straight line, and is capped at the burst only at the
// instants that the rules name: when an entry arrives, and when the plan changes.
type bucket struct {
	n, span int64 // n of 0: no limit
	burst   int
	slack   int64

	level *big.Rat // on the line, at the instant at
	at    int64

	late, floor, held int64
	ends              bool // the end of the hold has yet to leave one token

	// To give tokens back, all that has happened to the level is played again, with the entry's cost
	// as it should have been.
	first *bucket
	plays []func(*bucket)
}

// charge is what an entry has cost.
type charge struct{ cost int }

func newBucket(n, span int64, burst int, slack int64) *bucket {
	if burst == 0 {
		burst = 1
	}
	if slack == 0 {
		slack = 100e6
	}
	b := &bucket{n: n, span: span, burst: burst, slack: max(slack, 0), level: whole(int64(burst))}
	first := *b
	b.first = &first
	return b
}

// play does f to the level.
func (b *bucket) play(f func(*bucket)) {
	f(b)
	b.plays = append(b.plays, f)
}

// replay does all of it again.
func (b *bucket) replay() {
	again := *b.first
	for _, f := range b.plays {
		f(&again)
	}
	b.level, b.at = again.level, again.at
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func (b *bucket) unlimited() bool { return b.n == 0 }

// line returns the level at t as if nothing had ever capped it since b.at.
func (b *bucket) line(t int64) *big.Rat {
	grown := new(big.Rat).Sub(whole(t), whole(b.at))
	if b.unlimited() {
		return grown.Add(grown, b.level)
	}
	grown.Mul(grown, big.NewRat(b.n, b.span))
	return grown.Add(grown, b.level)
}

// capped returns the level at t where it is capped there: to the burst, if the bucket has
// been full for a whole nanosecond. If it has not, it may be that the entry came at the
// very instant when the bucket was full, in between two readings of the clock.
func (b *bucket) capped(t int64) *big.Rat {
	if most := whole(int64(b.burst)); b.line(t-1).Cmp(most) >= 0 {
		return most
	}
	return b.line(t)
}

func (b *bucket) set(t int64, level *big.Rat) { b.at, b.level = t, level }

func (b *bucket) full(now int64) bool {
	return b.held <= now && b.after().line(now).Cmp(whole(int64(b.burst))) >= 0
}

// after returns the bucket as the end of the hold leaves it.
func (b *bucket) after() *bucket {
	c := *b
	c.plays = nil
	c.endHold(c.held)
	return &c
}

func (b *bucket) endHold(now int64) {
	if b.ends && b.held <= now {
		b.ends = false
		b.leaveOne(b.held)
	}
}

func (b *bucket) arrive(now int64) int64 {
	// More than full on the line, slack ago: it was full already, and idle.
	if b.late > 0 && b.after().line(now-b.slack).Cmp(whole(int64(b.burst))) > 0 {
		b.late = 0
	}
	return max(now-b.late, b.floor)
}

// due looks for the first whole nanosecond at which the level has come to what is
// needed, if it is capped at since and never after.
func (b *bucket) due(since int64, ahead uint64, cost int) int64 {
	since = max(since, b.floor)
	at := max(since, b.held)
	if b.unlimited() {
		return at
	}
	missing := new(big.Rat).SetInt(new(big.Int).Add(new(big.Int).SetUint64(ahead), big.NewInt(int64(cost))))
	missing.Sub(missing, b.after().capped(since))
	if missing.Sign() <= 0 {
		return at
	}
	wait := roundUp(missing.Mul(missing, big.NewRat(b.span, b.n)))
	wait.Add(wait, big.NewInt(since))
	if !wait.IsInt64() {
		return math.MaxInt64
	}
	return max(at, wait.Int64())
}

func (b *bucket) take(now, since int64, cost int) *charge {
	b.endHold(now)
	since = max(since, b.floor)
	due := now
	if now > since {
		due = b.due(since, 0, cost)
	}
	b.late = min(max(now-due, 0), b.slack)
	e := &charge{cost}
	from := max(since, now-b.slack)
	b.play(func(b *bucket) {
		if !b.unlimited() {
			b.set(from, new(big.Rat).Sub(b.capped(from), whole(int64(e.cost))))
		}
	})
	return e
}

func (b *bucket) lag(now int64, out uint64) {
	if b.unlimited() {
		return
	}
	taken := roundUp(new(big.Rat).SetFrac(new(big.Int).Mul(new(big.Int).SetUint64(out), big.NewInt(b.span)), big.NewInt(b.n)))
	at := now
	if left := taken.Sub(big.NewInt(b.slack), taken); left.Sign() > 0 {
		at -= left.Int64()
	}
	if b.after().line(at-1).Cmp(whole(int64(b.burst))) > 0 { // else what it would make up for has been lost before
		b.floor = max(b.floor, at)
	}
}

// settle makes the cost of an entry the actual one: a higher one as a debt from now on, a lower one
// from the start.
func (b *bucket) settle(now int64, e *charge, actual int) {
	if actual >= e.cost {
		b.change(now)
		more := whole(int64(actual - e.cost))
		b.play(func(b *bucket) {
			if !b.unlimited() {
				b.level = new(big.Rat).Sub(b.level, more)
			}
		})
		return
	}
	b.endHold(now)
	b.floor = max(b.floor, now)
	e.cost = actual
	level, at := b.level, b.at
	full := b.line(now).Cmp(whole(int64(b.burst))) >= 0
	switch b.replay(); {
	case b.unlimited():
	case full: // nothing comes back
		b.level, b.at = level, at
	default:
		b.cap(now)
	}
}

func (b *bucket) cap(from int64) {
	b.play(func(b *bucket) {
		if b.line(from).Cmp(whole(int64(b.burst))) > 0 {
			b.set(from, whole(int64(b.burst)))
		}
	})
}

// change caps the level where a new plan begins: now, or at the end of the hold.
func (b *bucket) change(now int64) int64 {
	b.endHold(now)
	b.floor = max(b.floor, now)
	b.cap(now)
	return now
}

func (b *bucket) setRate(now, n, span int64) { b.rescale(b.change(now), n, span) }

func (b *bucket) repace(now, last, n, span int64) {
	b.endHold(now)
	b.floor = max(b.floor, now)
	if !b.ends {
		last = max(last, b.held)
	}
	b.rescale(last, n, span)
}

// rescale keeps as many tokens as are missing at an instant, and lets them flow in at
// another rate from then on.
func (b *bucket) rescale(from, n, span int64) {
	held := b.held
	b.play(func(b *bucket) { b.rescaled(from, held, n, span) })
}

func (b *bucket) rescaled(from, held, n, span int64) {
	debt := whole(0)
	switch {
	case !b.unlimited():
		debt.Sub(whole(int64(b.burst)), b.line(from))
	case held >= from:
		debt.SetInt64(int64(b.burst) - 1)
	}
	b.n, b.span = n, span
	if b.unlimited() || debt.Sign() < 0 {
		debt = whole(0)
	}
	if n > 0 {
		// The time that the debt takes is rounded up to the unit of the new rate, 1/n of
		// a nanosecond with n reduced, of which one token takes span, reduced.
		step := new(big.Int).Set(big.NewRat(n, span).Denom())
		units := roundUp(debt.Mul(debt, new(big.Rat).SetInt(step)))
		debt = new(big.Rat).SetFrac(units, step)
	}
	b.set(from, debt.Sub(whole(int64(b.burst)), debt))
}

func (b *bucket) spend(now, until int64) {
	b.endHold(now)
	b.floor, b.late = max(b.floor, now), 0
	b.leaveOne(max(now, until))
}

// leaveOne sees to it that there is no more than one token at an instant.
func (b *bucket) leaveOne(at int64) {
	b.play(func(b *bucket) {
		if b.unlimited() {
			if b.at < at {
				b.set(at, whole(int64(b.burst)))
			}
		} else if b.line(at).Cmp(whole(1)) > 0 {
			b.set(at, whole(1))
		}
	})
}

func (b *bucket) setBurst(now int64, burst int) {
	from := b.change(now)
	b.play(func(b *bucket) {
		if b.unlimited() {
			b.set(b.at, whole(int64(burst)))
		} else {
			b.set(from, b.line(from))
		}
		b.burst = burst
	})
}

func (b *bucket) hold(now, until int64) {
	b.endHold(now)
	if until <= b.held {
		return
	}
	b.held, b.floor, b.late, b.ends = until, max(b.floor, until), 0, true
}

func (b *bucket) resume(now int64) {
	if b.held > now {
		b.held, b.floor = now, now
	}
}

// roundUp returns the least whole number that is not below r.
func roundUp(r *big.Rat) *big.Int {
	q, rest := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}
