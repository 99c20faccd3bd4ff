package gate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/pace"
)

// RateOptions are the settings of a [Rate]: those of a pacer.
type RateOptions = pace.Options

// Rate is a token bucket: it lets entries through at a rate, and as many as Burst at
// once after idle time. With a burst of 1, the default, it spaces them strictly. It is
// the right gate for an API that documents a leaky bucket, or a rate and a burst; for
// "at most n in any span" see [Window], because a bucket that holds n tokens passes up
// to 2n within one span.
//
// In any window of length w, by the instants of the grants, at most
// burst + rate·(w + slack) tokens go, whatever the number of goroutines. See
// [pace.Options] for the slack. Those who were let go but have yet to get to run are late, too, and
// what they cost is taken off the lateness that may be made up. So the same holds by the instants at
// which callers run, unless the system keeps more of them from it at a time than may go within the slack.
//
// Enter takes costs and gives a pass; [Rate.Wait] and [Rate.Allow] have the shape that
// users of golang.org/x/time/rate know. The changes of plan (SetRate, SetBurst, Hold,
// Settle) apply at once to everyone who waits: whoever's deadline has come out of reach
// gets a *[DeadlineError], whoever's cost has come to exceed the burst a
// *[CapacityError].
//
// Entering allocates nothing. With a cost of 1, when a token is there, it takes no lock either, as long as
// all entries cost 1 and none was settled. Make a Rate with [NewRate]; the zero value does not work.
type Rate struct {
	clk   *timing.Clock
	exact timing.Precision
	cell  atomic.Pointer[schedule.Cell] // replaced under the domain's lock
	state schedule.Schedule             // guarded by the domain while the cell is closed
	n     node

	contest contest // for the cell; far from what every entry reads
}

// NewRate returns a gate for the given rate, its bucket full. It panics on the zero
// Rate, on a negative burst and on an unknown precision.
func NewRate(r pace.Rate, o *RateOptions) *Rate {
	o.Check("gate: NewRate", r)
	if o == nil {
		o = &RateOptions{}
	}
	g := &Rate{
		clk:   timing.New(o.Clock),
		exact: timing.Precision(o.Precision),
		state: schedule.New(int64(r.Count()), int64(r.Span()), o.Burst, int64(o.Slack)),
	}
	g.n.init(g.member(), g.clk)
	g.n.absent.state = &g.state
	g.n.alarm.Tune(g.exact, int64(r.Interval()), g.state.Slack())
	g.cell.Store(g.state.Open(g.clk.Now(), schedule.Shut()))
	return g
}

// Enter is described at [Gate]. A cost above the burst is a *[CapacityError], unless the
// rate is unlimited.
func (g *Rate) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Rate.Enter", ctx, cost)
	if timing.Closed(ctx.Done()) {
		g.n.lane.abandoned.Add(1)
		return Pass{}, context.Cause(ctx)
	}
	// The clock is read before the word, which is looked at and swapped in one go then: two processors
	// that do nothing else are less in each other's way. That is worth a third of an entry. A token
	// may be made out as missing that is there, but if the lock finds it, it is no loss.
	if cost > 1 {
		mark, err := g.n.lane.enter(ctx, cost, nil)
		if err != nil {
			return Pass{}, err
		}
		return Pass{(*rateKeeper)(g), mark, cost}, nil
	}
	c := g.cell.Load()
	if c == nil {
		panicOnZero()
	}
	now := g.clk.Now()
	word := c.Load()
	next, v := c.Next(word, now, cost)
	mark := uint64(now)
	if v == schedule.Taken {
		if c.Swap(word, next) {
			return Pass{(*rateKeeper)(g), mark, cost}, nil
		}
		v = g.contend(c, now, cost)
	}
	if v != schedule.Taken {
		var err error
		if mark, err = g.n.lane.enter(ctx, cost, nil); err != nil {
			return Pass{}, err
		}
	}
	return Pass{(*rateKeeper)(g), mark, cost}, nil
}

// TryEnter is described at [Gate].
func (g *Rate) TryEnter(cost int) (Pass, bool) {
	checkCost("Rate.TryEnter", cost)
	if cost > 1 {
		mark, ok := g.n.lane.tryEnter(cost, nil)
		if !ok {
			g.n.lane.refused.Add(1)
			return Pass{}, false
		}
		return Pass{(*rateKeeper)(g), mark, cost}, true
	}
	c := g.cell.Load()
	if c == nil {
		panicOnZero()
	}
	word := c.Load()
	now := g.clk.Now()
	next, v := c.Next(word, now, cost)
	mark := uint64(now)
	if v == schedule.Taken {
		if c.Swap(word, next) {
			return Pass{(*rateKeeper)(g), mark, cost}, true
		}
		v = g.contend(c, now, cost)
	}
	ok := v == schedule.Taken
	if v == schedule.Closed {
		mark, ok = g.n.lane.tryEnter(cost, nil)
	}
	if !ok {
		g.n.lane.refused.Add(1)
		return Pass{}, false
	}
	return Pass{(*rateKeeper)(g), mark, cost}, true
}

// Wait enters with a cost of 1. There is no need to leave a Rate, so it gives no pass.
// Its errors are those of [Rate.Enter].
func (g *Rate) Wait(ctx context.Context) error {
	_, err := g.Enter(ctx, 1)
	return err
}

// Allow tries to enter with a cost of 1, and reports whether it did.
func (g *Rate) Allow() bool {
	_, ok := g.TryEnter(1)
	return ok
}

// contend tries to enter without the lock, where somebody was faster than an entry that has read the
// clock at now. Anything but Taken and Refused is for the lock to decide.
func (g *Rate) contend(c *schedule.Cell, now int64, cost int) schedule.Verdict {
	for {
		stale := !g.contest.lost()
		word := c.Load()
		if !stale {
			now = g.clk.Now()
		}
		v := c.Take(word, now, cost)
		if v == schedule.Refused && stale {
			// Somebody who read the clock later was faster.
			word, now = c.Load(), g.clk.Now()
			v = c.Take(word, now, cost)
		}
		if v != schedule.Changed {
			return v
		}
	}
}

// SetRate changes the rate, at once and for everyone who waits. The tokens that are in
// the bucket, and the part of the next one that has already come, stay. It panics on the
// zero Rate.
func (g *Rate) SetRate(r pace.Rate) {
	(*pace.Options)(nil).Check("gate: Rate.SetRate", r)
	g.n.change(func(now int64) {
		g.state.SetRate(now, int64(r.Count()), int64(r.Span()))
		g.n.alarm.Tune(g.exact, int64(r.Interval()), g.state.Slack())
	})
}

// SetBurst changes the burst, at once and for everyone who waits. The tokens that are in
// the bucket stay, as far as they fit; a larger bucket fills up by time alone. It panics
// if n is less than 1.
func (g *Rate) SetBurst(n int) {
	if n < 1 {
		panic(fmt.Sprintf("gate: Rate.SetBurst: n must be at least 1, got %d", n))
	}
	g.n.change(func(now int64) { g.state.SetBurst(now, n) })
}

// Hold keeps everyone out, whoever waits and whoever comes, until d from now. Then one
// token is there, and the others come at the rate, so that nobody bursts. A hold is
// never shortened: one that would end earlier than another does nothing, nor does a d
// that is not positive.
func (g *Rate) Hold(d time.Duration) {
	if d > 0 {
		g.n.change(func(now int64) { g.state.Hold(now, timing.Later(now, d)) })
	}
}

// Stats returns the statistics of the gate at this instant.
func (g *Rate) Stats() Stats {
	d := g.n.lock()
	defer d.unlock()
	now := g.n.lane.read(d)
	return g.n.stats(now, 0, g.state.Held(), g.state.Full(now))
}

// rateMember is the Rate that its domain sees.
type rateMember Rate

func (g *Rate) member() member { return (*rateMember)(g) }

func (m *rateMember) Stats() Stats { return (*Rate)(m).Stats() }
func (m *rateMember) node() *node  { return &m.n }
func (m *rateMember) sync()        { m.n.granted.Add(m.cell.Load().Close(&m.state)) }
func (m *rateMember) open(now int64) {
	old := m.cell.Load()
	if c := m.state.Open(now, old); c != old {
		m.cell.Store(c)
	}
}
func (m *rateMember) broken() error          { return nil }
func (m *rateMember) limit() int             { return m.state.Limit() }
func (m *rateMember) limitName() string      { return "burst" }
func (m *rateMember) arrive(now int64) int64 { return m.state.Arrive(now) }
func (m *rateMember) due(_, since int64, cost int) int64 {
	return m.state.Due(since, 0, cost)
}
func (m *rateMember) plan(now int64, ahead uint64, cost, _ int) (least, latest int64) {
	at := m.state.Due(now, ahead, cost)
	return at, at
}
func (m *rateMember) outlook(now int64) outlook { return &sumOutlook{m: m, now: now} }
func (m *rateMember) take(now, since int64, cost int) uint64 {
	if cost > 1 {
		m.state.Track() // entries that have costs are likely to be settled
	}
	return m.state.Take(now, since, cost)
}
func (m *rateMember) woke(now, granted int64)  { m.state.Woke(now, granted) }
func (m *rateMember) leave(uint64, int, error) {}
func (m *rateMember) undo(now int64, mark uint64, cost int, granted int64) (later bool) {
	m.state.Undo(now, granted, mark, cost)
	return true // lateness until here is of no account
}
func (m *rateMember) settle(now int64, mark uint64, cost, actual int) (later bool) {
	m.state.Settle(now, mark, cost, actual)
	return true
}

func (m *rateMember) bucket() *schedule.Schedule { return &m.state }
func (m *rateMember) entry(mark uint64) uint64   { return mark }

// rateKeeper is the Rate that a pass goes back to.
type rateKeeper Rate

func (k *rateKeeper) Leave(uint64, int, error) {}
func (k *rateKeeper) Settle(mark uint64, cost, actual int) {
	k.n.lane.settle([]uint64{mark}, cost, actual)
}
