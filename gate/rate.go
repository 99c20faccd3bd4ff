package gate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/misuse"
	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/pace"
)

// RateOptions are the settings of a [Rate]: those of a pacer. Nil means the defaults.
type RateOptions = pace.Options

// Rate is a token bucket: it admits entries at a rate, and as many as Burst at once after idle time. It is
// the right gate for an API that documents a leaky bucket, or a rate and a burst.
//
// With a burst of 1, the default, it spaces entries strictly. For "at most n in any span" see [Window]: a
// bucket that holds n tokens passes up to 2n within one span.
//
// # The bound
//
// In any window of length w, at most burst + rate·(w + slack) tokens go, by the instants of the grants.
// That holds whatever the number of goroutines. See [pace.Options] for the slack.
//
// Admitted callers that are not running yet are late, too. What their entries cost is charged to the
// lateness that may be made up. So the bound also holds by the instants at which callers run. The exception
// is a system that delays more admitted callers at a time than may go within the slack.
//
// # Entering, and changes of plan
//
// Enter takes costs and gives a pass. [Rate.Wait] and [Rate.Allow] have the shape that users of
// golang.org/x/time/rate know.
//
// SetRate, SetBurst, Hold and Settle apply at once to all waiters. A waiter gets a *[DeadlineError] if its
// deadline is out of reach now. It gets a *[CapacityError] if its cost exceeds the burst now.
//
// Entering allocates nothing. With a cost of 1, when a token is there, it takes no lock either. That lasts
// as long as all entries cost 1 and none is settled. Make a Rate with [NewRate]; the zero value does not
// work.
type Rate struct {
	clk *timing.Clock // fixed; nil in the zero Rate

	// The state of the bucket is in the cell while entries pass without the lock, and in whole while the
	// cell is closed. Freeze and Thaw, called under the lock of whole, move it from one to the other.
	cell atomic.Pointer[schedule.Cell]

	// whole is nil until an entry needs a lock. It is set once, and stays.
	whole atomic.Pointer[rateLimit]

	number uint64   // fixed: higher than those of limits that were made earlier
	plan   ratePlan // fixed: what whole starts from
	counts
}

// ratePlan is what a Rate is made with. It is kept so that the rateLimit can be made later, and so that a
// copy of the cell's state can be made without one.
type ratePlan struct {
	rate  pace.Rate
	burst int
	slack time.Duration
	exact timing.Precision
}

// schedule returns a full bucket that goes by the plan.
func (p *ratePlan) schedule() schedule.Schedule {
	return schedule.New(int64(p.rate.Count()), int64(p.rate.Span()), p.burst, int64(p.slack))
}

// rateLimit is a Rate as its queue sees it. It is apart because most Rates of a [Keyed] do without: their
// cell is enough as long as no entry has to wait.
type rateLimit struct {
	bucket
	single
	rate  *Rate
	asked pace.Rate // as SetRate has set it
}

// NewRate returns a gate for the given rate, its bucket full. Nil options mean the defaults. It panics on
// the zero [pace.Rate], on a negative burst and on an unknown precision.
func NewRate(r pace.Rate, o *RateOptions) *Rate {
	if o == nil {
		o = &RateOptions{}
	}
	misuse.Options("gate: NewRate", r.Valid(), o.Burst, int(o.Precision))
	g := &Rate{
		clk:    timing.New(o.Clock),
		number: queue.Number(),
		plan:   ratePlan{r, o.Burst, o.Slack, timing.Precision(o.Precision)},
	}
	state := g.plan.schedule()
	g.cell.Store(state.Open(g.clk.Now(), schedule.Shut()))
	return g
}

// limit returns the Rate as its queue sees it, and makes it at the first call. Callers may race to make it.
// One of them wins, and what the others made is dropped before any entry has used it.
//
// Its schedule starts with a full bucket. The first Freeze moves the true state there from the cell.
func (g *Rate) limit() *rateLimit {
	if l := g.whole.Load(); l != nil {
		return l
	}
	if g.clk == nil {
		panicOnZero()
	}
	l := &rateLimit{bucket: bucket{state: g.plan.schedule()}, rate: g}
	l.init(l, g.clk, kind{capacity: "burst"})
	l.tune(g.plan.rate)
	if g.whole.CompareAndSwap(nil, l) {
		return l
	}
	return g.whole.Load()
}

// tune tells the alarm how often entries are due, and how much lateness is made up.
func (l *rateLimit) tune(r pace.Rate) {
	l.asked = r
	l.Tune(l.rate.plan.exact, int64(r.Interval()), l.state.Slack())
}

// Enter is described at [Gate]. A cost above the burst is a *[CapacityError], unless the
// rate is unlimited.
func (g *Rate) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Rate.Enter", ctx, cost)
	if timing.Closed(ctx.Done()) {
		return Pass{}, g.ended(ctx)
	}
	mark, v := g.pass(cost)
	if v != schedule.Taken {
		var err error
		if mark, err = g.limit().enter(ctx, cost); err != nil {
			return Pass{}, err
		}
	}
	return Pass{(*rateKeeper)(g), mark, cost}, nil
}

// TryEnter is described at [Gate].
func (g *Rate) TryEnter(cost int) (Pass, bool) {
	checkCost("Rate.TryEnter", cost)
	mark, v := g.pass(cost)
	ok := v == schedule.Taken
	switch v {
	case schedule.Refused:
		g.refused.Add(1)
	case schedule.Closed:
		mark, ok = g.limit().tryEnter(cost)
	}
	if !ok {
		return Pass{}, false
	}
	return Pass{(*rateKeeper)(g), mark, cost}, true
}

// pass tries to admit an entry without the lock, and returns its mark, the instant of the grant. The
// verdict Closed means that only the lock tells, and Refused that the tokens are not there.
func (g *Rate) pass(cost int) (mark uint64, v schedule.Verdict) {
	c := g.cell.Load()
	if c == nil {
		panicOnZero()
	}
	if cost > 1 {
		// It is likely to be settled, and a cell keeps no account of entries.
		return 0, schedule.Closed
	}
	for {
		// The clock is read after the word: an earlier reading could miss a token that is there.
		word := c.Load()
		now := g.clk.Now()
		next, v := c.Next(word, now, cost)
		if v != schedule.Taken || c.Swap(word, next) {
			return uint64(now), v
		}
	}
}

// Wait enters with a cost of 1. It gives no pass, because a Rate need not be left. Its errors are those of
// [Rate.Enter].
func (g *Rate) Wait(ctx context.Context) error {
	_, err := g.Enter(ctx, 1)
	return err
}

// Allow tries to enter with a cost of 1, and reports whether it did. It never waits.
func (g *Rate) Allow() bool {
	_, ok := g.TryEnter(1)
	return ok
}

// SetRate changes the rate, at once and for all waiters. The tokens that are in the bucket stay, and so
// does the part of the next one that has already come. It panics on the zero [pace.Rate].
func (g *Rate) SetRate(r pace.Rate) {
	misuse.Rate("gate: Rate.SetRate", r.Valid())
	l := g.limit()
	l.Change(func(now int64) queue.Effect {
		l.state.SetRate(now, int64(r.Count()), int64(r.Span()))
		l.tune(r)
		l.planned(now)
		return queue.Later
	})
}

// SetBurst changes the burst, at once and for all waiters. The tokens that are in the bucket stay, as far
// as they fit. A larger bucket fills up by time alone. It panics if n is less than 1.
func (g *Rate) SetBurst(n int) {
	if n < 1 {
		panic(fmt.Sprintf("gate: Rate.SetBurst: n must be at least 1, got %d", n))
	}
	l := g.limit()
	l.Change(func(now int64) queue.Effect {
		l.state.SetBurst(now, n)
		l.planned(now)
		return queue.Later
	})
}

// Hold admits no entry, waiting or new, until d from now. Then one token is there, and the next ones come
// at the rate, so there is no burst.
//
// A hold is never shortened: one that would end earlier than another does nothing. Nor does a d that is not
// positive.
func (g *Rate) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	l := g.limit()
	l.Change(func(now int64) queue.Effect {
		l.state.Hold(now, timing.Later(now, d))
		return queue.Later
	})
}

// Stats returns the statistics of the gate at this instant.
func (g *Rate) Stats() (s Stats) {
	g.view(func(now int64, state *schedule.Schedule, l *rateLimit, passed uint64) {
		if l != nil {
			s = l.stats(now, state.Held())
		} else {
			s = Stats{Granted: passed, NextDue: span(now, state.Due(state.Arrive(now), 0, 1))}
		}
		s.Refused += g.refused.Load()
		s.Abandoned += g.abandoned.Load()
		s.Forfeited = state.Forfeited()
		s.Idle = state.Full(now) && s.Waiting == 0
	})
	return s
}

// view runs f on the state of the bucket, at the instant that it is handed. While there is no rateLimit, f
// gets a copy from the cell, and the number of entries that have passed. So a look makes no rateLimit.
func (g *Rate) view(f func(now int64, state *schedule.Schedule, l *rateLimit, passed uint64)) {
	if g.clk == nil {
		panicOnZero()
	}
	state := g.plan.schedule()
	passed := g.cell.Load().Peek(&state)
	if l := g.whole.Load(); l != nil { // looked for last: it may have been made, and the cell closed, just now
		l.View(func(now int64) { f(now, &l.state, l, 0) })
		return
	}
	f(g.clk.Now(), &state, nil, passed)
}

func (g *Rate) member() member { return g.limit() }

// As a part, a Rate answers for itself: a Keyed must not cost each key a rateLimit. As the member of an All
// it is its rateLimit.
func (g *Rate) part() part           { return g }
func (g *Rate) born() uint64         { return g.number }
func (g *Rate) kind() kind           { return kind{capacity: "burst"} }
func (g *Rate) clock() *timing.Clock { return g.clk }
func (g *Rate) restsAt(now int64) (at int64) {
	g.view(func(now int64, state *schedule.Schedule, l *rateLimit, _ uint64) {
		at = state.Due(now, 0, state.Burst()) // the bucket is full
		if l != nil {
			at = l.resting(now, at)
		}
	})
	return at
}

func (l *rateLimit) describe() (s string) {
	l.View(func(int64) { s = fmt.Sprintf("a Rate of %v, burst %d", l.asked, l.state.Burst()) })
	return s
}

func (l *rateLimit) born() uint64                               { return l.rate.number }
func (l *rateLimit) restsAt(now int64) int64                    { return l.rate.restsAt(now) }
func (l *rateLimit) Stats() Stats                               { return l.rate.Stats() }
func (l *rateLimit) leave(c queue.Claim, _ error) (mark uint64) { return c.Mark }

// Freeze closes the cell, so that entries come to the lock. It moves the state from there to the bucket,
// and counts the entries that have passed.
func (l *rateLimit) Freeze() { l.AddGranted(l.rate.cell.Load().Close(&l.state)) }

// Thaw opens a cell with the state of the bucket, if the state fits into one. If it does not, Open returns
// the old cell, which stays closed. A new cell is stored only after it was opened.
func (l *rateLimit) Thaw(now int64) {
	old := l.rate.cell.Load()
	if c := l.state.Open(now, old); c != old {
		l.rate.cell.Store(c)
	}
}

func (l *rateLimit) Take(now, since int64, cost int) (mark uint64) {
	if cost > 1 {
		// Entries that have costs are likely to be settled. From then on all entries need the lock: no cell
		// keeps the account.
		l.state.Track()
	}
	return l.state.Take(now, since, cost)
}

// rateKeeper is the Rate that a pass goes back to. It is a type of its own so that Leave and Settle are not
// methods of Rate.
type rateKeeper Rate

func (k *rateKeeper) Leave(uint64, int, error) {}
func (k *rateKeeper) Settle(mark uint64, cost, actual int) {
	(*Rate)(k).limit().settle(mark, cost, actual)
}
