package model

import (
	"math/big"

	"github.com/escapement-go/escapement/pace"
)

// bucket is the model of a Rate: a token bucket in exact fractions. It keeps all that was
// done to it, and finds its level by doing it again: so a refund leaves it as if the entry
// had cost less in the first place.
type bucket struct {
	first level
	log   []deed
	now   level // after the log
	id    map[int]int
}

// level is the state of a bucket at an instant.
type level struct {
	rate   *big.Rat // tokens a nanosecond; nil: unlimited
	burst  int
	at     int64
	tokens *big.Rat // negative: a debt
	held   int64
}

type deed struct {
	at    int64
	kind  string // take, debit, rate, burst, hold, resume
	cost  int
	rate  *big.Rat
	until int64
}

func newBucket(r pace.Rate, burst int) *bucket {
	l := level{rate: fraction(r), burst: burst, tokens: big.NewRat(int64(burst), 1)}
	return &bucket{first: l, now: l, id: map[int]int{}}
}

func fraction(r pace.Rate) *big.Rat {
	if r.IsUnlimited() {
		return nil
	}
	return big.NewRat(int64(r.Count()), int64(r.Span()))
}

// to returns the level at t. What comes up beyond the burst is lost, but for the part of the
// nanosecond in which the bucket got full: instants are whole ones.
func (l level) to(t int64) level {
	if l.at < l.held && l.held <= t {
		l = l.up(l.held)
		if one := big.NewRat(1, 1); l.tokens.Cmp(one) > 0 {
			l.tokens = one
		}
	}
	return l.up(t)
}

func (l level) up(t int64) level {
	if l.rate != nil {
		d := new(big.Rat).Mul(l.rate, new(big.Rat).SetInt64(t-l.at))
		l.tokens = d.Add(d, l.tokens)
	} else {
		l.tokens = big.NewRat(int64(l.burst), 1)
		if l.held == t {
			l.tokens = big.NewRat(1, 1) // for a rate that is set at this instant
		}
	}
	since := t - l.at
	l.at = t
	if full := big.NewRat(int64(l.burst), 1); l.tokens.Cmp(full) > 0 {
		before := full
		if since > 0 && l.rate != nil {
			before = new(big.Rat).Sub(l.tokens, l.rate)
		}
		if before.Cmp(full) >= 0 {
			l.tokens = full
		}
	}
	return l
}

func (l level) do(d deed) level {
	l = l.to(d.at)
	switch d.kind {
	case "take", "debit":
		if l.rate != nil {
			l.tokens = new(big.Rat).Sub(l.tokens, big.NewRat(int64(d.cost), 1))
		}
	case "rate":
		l.rate = d.rate
		if l.rate != nil {
			// A schedule has no fractions finer than its tokens have: less than that is lost.
			part := new(big.Rat).SetInt(l.rate.Num())
			missing := new(big.Rat).Sub(big.NewRat(int64(l.burst), 1), l.tokens)
			full := new(big.Rat).SetInt(roundUp(part.Mul(part, missing.Quo(missing, l.rate))))
			full.Mul(full, l.rate).Quo(full, new(big.Rat).SetInt(l.rate.Num()))
			l.tokens = new(big.Rat).Sub(big.NewRat(int64(l.burst), 1), full)
		}
	case "burst":
		for _, l.burst = range []int{l.burst, d.cost} { // as far as they fit, before and after
			if full := big.NewRat(int64(l.burst), 1); l.tokens.Cmp(full) > 0 {
				l.tokens = full
			}
		}
	case "hold":
		l.held = max(l.held, d.until)
	case "resume":
		if l.held > max(d.at, d.until) {
			l.held = max(d.at, d.until)
			if one := big.NewRat(1, 1); l.held == d.at && l.tokens.Cmp(one) > 0 {
				l.tokens = one
			}
		}
	}
	return l
}

func (b *bucket) did(d deed) {
	b.log = append(b.log, d)
	b.now = b.now.do(d)
}

func (b *bucket) capacity() int {
	if b.now.rate == nil {
		return int(^uint(0) >> 1)
	}
	return b.now.burst
}

func (b *bucket) when(now int64, cost int) int64 {
	now = max(now, b.now.at)
	l := b.now // the part of a nanosecond that came while an entry waited is still there
	if b.now.at < now {
		l = b.now.to(now)
	}
	if l.held > now {
		now = l.held
		l = l.to(now)
	}
	if l.rate == nil {
		return now
	}
	need := new(big.Rat).Sub(big.NewRat(int64(cost), 1), l.tokens)
	if need.Sign() <= 0 {
		return now
	}
	return add(now, ceil(need.Quo(need, l.rate)))
}

func (b *bucket) take(now int64, id, cost int) {
	b.id[id] = len(b.log)
	b.did(deed{at: now, kind: "take", cost: cost})
}

func (b *bucket) settle(now int64, id, actual int) {
	i, ok := b.id[id]
	if !ok {
		return
	}
	if more := actual - b.log[i].cost; more > 0 {
		b.did(deed{at: now, kind: "debit", cost: more})
		return
	}
	b.log[i].cost = actual
	b.now = b.first
	for _, d := range b.log {
		b.now = b.now.do(d)
	}
}

func (b *bucket) leave(int64, int) {}

func (b *bucket) inUse(int64) int { return 0 }

func (b *bucket) idle(now int64) bool {
	l := b.now.to(now)
	return l.held <= now && (l.rate == nil || l.tokens.Cmp(big.NewRat(int64(l.burst), 1)) >= 0)
}

func (b *bucket) heldFor(now int64) int64 { return max(0, b.now.held-now) }

func (b *bucket) hold(now, d int64) {
	if d > 0 {
		b.did(deed{at: now, kind: "hold", until: add(now, d)})
	}
}

func (b *bucket) resume(now, until int64) {
	if b.now.held <= now {
		return // a part of a nanosecond that is there at this instant stays
	}
	b.did(deed{at: now, kind: "resume", until: until})
}

func (b *bucket) setRate(now int64, r pace.Rate) {
	b.did(deed{at: now, kind: "rate", rate: fraction(r)})
}

func (b *bucket) setBurst(now int64, n int) {
	b.did(deed{at: now, kind: "burst", cost: n})
}

func (b *bucket) clone() leaf {
	c := *b
	c.log = append([]deed(nil), b.log...)
	c.id = map[int]int{}
	for id, i := range b.id {
		c.id[id] = i
	}
	return &c
}
