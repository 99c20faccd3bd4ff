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

// Rate is a token bucket: it admits entries at a rate, and up to Burst of them at once after idle time. Use it
// for an API that documents a leaky bucket, or a rate and a burst.
//
// With a burst of 1, the default, it spaces entries strictly. For "at most n in any span" use a [Window]: a
// bucket that holds n tokens passes up to 2n within one span.
//
// # The bound
//
// In any window of length w, at most burst + rate·(w + slack) tokens are granted, whatever the number of
// goroutines. See [pace.Options] for the slack.
//
// A caller may begin to run late after its grant. Until then, its tokens reduce the lateness that is made up
// for. So the bound also holds for the instants at which callers run, unless the system delays more admitted
// callers at once than the slack has tokens for.
//
// # Entering, and changes of plan
//
// [Rate.Enter] takes a cost and returns a pass. [Rate.Wait] and [Rate.Allow] have the
// signatures of golang.org/x/time/rate. A pass of a Rate need not be left.
//
// SetRate, SetBurst, Hold, Resume and Settle apply at once to all waiters. A waiter gets a *[DeadlineError] if it can
// no longer be admitted before its deadline, and a *[CapacityError] if its cost now exceeds the burst.
//
// # Costs
//
// Entering allocates nothing. An entry of cost 1 that finds a token takes no lock, as long as no entry has
// cost more and none was settled. Make a Rate with [NewRate]; the zero value does not work.
type Rate struct {
	clk *timing.Clock // fixed; nil in the zero Rate

	// cell has the state of the bucket while entries pass without the lock. While the cell is closed, whole
	// has it. Freeze and Thaw, called under the lock of whole, move it from one to the other.
	cell atomic.Pointer[schedule.Cell]

	// whole is nil until an entry needs the lock. It is set once.
	whole atomic.Pointer[rateLimit]

	plan ratePlan // fixed: what whole starts from
	counts
}

// ratePlan has the arguments of NewRate. They are kept to make the rateLimit later, and to read the cell's
// state without one.
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

// rateLimit is a Rate as its queue sees it. It is a type of its own to keep the keys of a [Keyed] small: a Rate
// needs none until an entry has to wait.
type rateLimit struct {
	bucket
	single
	rate  *Rate
	asked pace.Rate // as SetRate has set it
}

// NewRate returns a gate for the given rate, with a full bucket. Nil options mean the defaults. It panics on
// the zero [pace.Rate], on a negative burst and on an unknown precision.
func NewRate(r pace.Rate, o *RateOptions) *Rate {
	if o == nil {
		o = &RateOptions{}
	}
	misuse.Options("gate: NewRate", r.Valid(), o.Burst, int(o.Precision))
	g := &Rate{
		clk:    timing.New(o.Clock),
		plan:   ratePlan{r, o.Burst, o.Slack, timing.Precision(o.Precision)},
		counts: counts{number: queue.Number()},
	}
	state := g.plan.schedule()
	g.cell.Store(state.Open(g.clk.Now(), schedule.Shut()))
	return g
}

// limit returns the rateLimit, and makes it at the first call. If callers race to make it, one of them wins.
// The others drop what they have made.
//
// Its schedule starts with a full bucket. The first Freeze moves the true state there from the cell.
func (g *Rate) limit() *rateLimit {
	if l := g.whole.Load(); l != nil {
		return l
	}
	if g.clk == nil {
		panicOnZero()
	}
	l := &rateLimit{bucket: bucket{state: g.plan.schedule()}, single: single{counts: &g.counts}, rate: g}
	l.init(l, g.clk, g.kind())
	l.tune(g.plan.rate)
	if g.whole.CompareAndSwap(nil, l) {
		return l
	}
	return g.whole.Load()
}

// tune tells the alarm how often entries are due, and how much lateness is made up for.
func (l *rateLimit) tune(r pace.Rate) {
	l.asked = r
	l.Tune(l.rate.plan.exact, int64(r.Interval()), l.state.Slack())
}

// Enter is described at [Gate]. A cost above the burst is a *[CapacityError], unless the
// rate is unlimited.
func (g *Rate) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Rate.Enter", ctx, cost)
	if timing.Closed(ctx.Done()) {
		return Pass{}, g.ended(ctx, cost)
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
		g.refuse(cost)
	case schedule.Closed:
		mark, ok = g.limit().tryEnter(cost)
	}
	if !ok {
		return Pass{}, false
	}
	return Pass{(*rateKeeper)(g), mark, cost}, true
}

// pass tries to admit an entry without the lock, and returns its mark, the instant of the grant. The
// verdict Refused means that there is no token, and Closed that the caller must ask under the lock.
func (g *Rate) pass(cost int) (mark uint64, v schedule.Verdict) {
	c := g.cell.Load()
	if c == nil {
		panicOnZero()
	}
	if cost > 1 {
		// The entry is likely to be settled, and a cell keeps no account of entries.
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
		stepAside()
	}
}

// Wait enters with a cost of 1. It returns no pass, because a Rate need not be left. Its errors are those of
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

// SetRate changes the rate, at once and for all waiters. The bucket keeps its tokens and the fraction of the
// next one. SetRate panics on the zero [pace.Rate].
func (g *Rate) SetRate(r pace.Rate) {
	misuse.Rate("gate: Rate.SetRate", r.Valid())
	l := g.limit()
	l.Change(func(now int64) queue.Effect {
		l.state.SetRate(now, int64(r.Count()), int64(r.Span()))
		l.tune(r)
		l.planned(now)
		return queue.Later
	})
	g.replanned()
}

// SetBurst changes the burst, at once and for all waiters. The bucket keeps its tokens as far as they fit. A
// larger one fills up at the rate. A waiter with a cost above n gets a *[CapacityError]. SetBurst panics if n
// is less than 1.
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
	g.replanned()
}

// Hold makes the gate admit no entry, waiting or new, until d from now. Use it when the far side asks for a
// pause. Afterwards one token is there, and the next ones come at the rate: there is no burst.
//
// Hold never shortens a hold. It does nothing if d is not positive.
func (g *Rate) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	l, longer := g.limit(), false
	l.Change(func(now int64) queue.Effect {
		longer = l.hold(now, d)
		return queue.Later
	})
	g.heldFor(longer, d)
}

// Resume ends a hold now, for all waiters at once. Use it when the far side is known to be back. From then on the
// gate is as at the end of a hold. One token is there, and the next ones come at the rate, however long the hold
// was. Without a hold it does nothing.
func (g *Rate) Resume() {
	if g.clk == nil {
		panicOnZero()
	}
	if l := g.whole.Load(); l != nil { // without it there has been no hold
		held := false
		l.Change(func(now int64) queue.Effect {
			held = l.resume(now)
			return queue.Sooner
		})
		g.resumed(held)
	}
}

// Stats returns the statistics of the gate at this instant.
func (g *Rate) Stats() (s Stats) {
	g.view(func(now int64, state *schedule.Schedule, l *rateLimit, passed uint64) {
		if l != nil {
			s = l.stats(now, state.Held())
		} else {
			s = Stats{Granted: passed, NextDue: span(now, state.Due(state.Arrive(now), 0, 1))}
			s.Refused, s.Abandoned = g.refused.Load(), g.abandoned.Load()
		}
		s.Forfeited = state.Forfeited()
		s.Left = left(state, now)
		s.Idle = state.Full(now) && s.Waiting == 0
	})
	return s
}

// view calls f with the present instant and the state of the bucket. While there is no rateLimit, f gets a copy
// of the cell's state, and the number of entries that have passed. So Stats makes no rateLimit.
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

// As a part, a Rate answers for itself, so that a Keyed needs no rateLimit for each key. As the member of an
// All it is its rateLimit.
func (g *Rate) part() part           { return g }
func (g *Rate) born() uint64         { return g.number }
func (g *Rate) kind() kind           { return kind{name: "rate", capacity: "burst"} }
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

// Freeze closes the cell, so that entries take the lock. It moves the cell's state to the bucket, and counts
// the entries that have passed.
func (l *rateLimit) Freeze() { l.AddGranted(l.rate.cell.Load().Close(&l.state)) }

// Thaw opens a cell with the state of the bucket, if the state fits into one. If not, Open returns the old
// cell, still closed. A new cell is stored only once it is open.
func (l *rateLimit) Thaw(now int64) {
	old := l.rate.cell.Load()
	if c := l.state.Open(now, old); c != old {
		l.rate.cell.Store(c)
	}
}

func (l *rateLimit) Take(now, since int64, cost int) (mark uint64) {
	if cost > 1 {
		// Entries with costs are likely to be settled, which needs an account. From now on all entries need
		// the lock, because a cell keeps no account.
		l.state.Track()
	}
	return l.state.Take(now, since, cost)
}

// rateKeeper is the Keeper of a Rate's passes. It is a type of its own so that Leave and Settle are not methods
// of Rate.
type rateKeeper Rate

func (g *Rate) keeper() Keeper { return (*rateKeeper)(g) }

func (k *rateKeeper) Leave(_ uint64, cost int, err error) {
	if err != nil {
		k.throttledBy(cost, err)
	}
}
func (k *rateKeeper) Settle(mark uint64, cost, actual int) {
	(*Rate)(k).limit().settle(mark, cost, actual)
}
