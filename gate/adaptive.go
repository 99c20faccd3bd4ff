package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/adapt"
	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/pace"
)

// AdaptiveOptions are the settings of an [Adaptive]. Nil, as well as the zero value, means
// the defaults.
type AdaptiveOptions struct {
	// Burst is the number of tokens that idle time may save up. 0 means 1.
	Burst int

	// Slowest is the longest interval that the gate backs off to. 0 means 1 minute, or the
	// interval asked for where that is longer.
	Slowest time.Duration

	// Backoff is what the interval is multiplied by when the far side throttles. 0 means 2, and
	// 1e9 is the most.
	Backoff float64

	// Recover is what the interval is multiplied by on a success, where the way back is known to
	// be free; elsewhere it shrinks by less. 0 means 0.9.
	Recover float64

	// GiveUp is the number of throttled generations in a row after which everyone gets
	// [ErrGaveUp]. 0 means never.
	GiveUp int

	// Clock is where the time comes from. Nil means the real clock.
	Clock clock.Clock
}

// Adaptive is a [Rate] that listens: when the far side throttles one caller, all of them
// slow down at once, and they come back to speed together. It is the gate for an API whose
// limit is not known, is shared with others or changes.
//
// It learns from the error that each pass is left with. nil is a success. An error that is
// or wraps a *[ThrottledError], see [Throttled], is a throttle. Any other error says nothing
// of the pace. Leave every pass.
//
// The time between two changes of the interval for the worse is a generation. A throttle of
// the current generation multiplies the interval by Backoff and starts the next; what was
// under way by then can throttle as often as it likes, it changes nothing more. From the
// moment that Leave returns, nobody, waiting or new, enters before the last grant plus the
// new interval, and nobody bursts. Successes of the current generation bring the interval
// back by Recover, down to the one asked for: at once where the way is known to be free,
// and slowly and ever more rarely where it was tried and failed. How, and from where that
// is taken, is told in internal/adapt. The throttle's After, if there is one, holds everyone
// for that long, from any generation. Where that is many intervals, each further throttle would
// cost as many calls, so the gate takes what it has seen so far for the limit, and then
// tries a little more only after 16 times as long.
//
// What it has learned fades: one hour, or 60 times Slowest if that is longer, after the last entry and
// the last throttle, and after the end of a hold, the gate is as after [Adaptive.Reset]. As long as
// callers wait, nothing fades.
//
// Every entry takes a lock, for a few dozen nanoseconds, and allocates nothing. Make an
// Adaptive with [NewAdaptive]; the zero value does not work.
type Adaptive struct {
	clk   *timing.Clock
	asked pace.Rate
	n     node

	// All below is guarded by the domain.
	state schedule.Schedule
	step  adapt.State
	last  int64 // instant of the last grant
	heard int64 // instant of the last grant or throttle; 0: none since all was forgotten
	fades int64 // how long after that all is forgotten
}

// NewAdaptive returns a gate that starts at the rate given, which it never exceeds. It
// panics on the zero Rate, on one that is unlimited or above one a nanosecond, on a Backoff
// that is not above 1 or is above 1e9, a Recover that is not between 0 and 1, a Slowest
// that is shorter than the interval asked for, and on negative options.
func NewAdaptive(r pace.Rate, o *AdaptiveOptions) *Adaptive {
	if o == nil {
		o = &AdaptiveOptions{}
	}
	(&pace.Options{Burst: o.Burst}).Check("gate: NewAdaptive", r)
	fastest := r.Interval()
	c := adapt.Config{
		Fastest: int64(fastest),
		Slowest: int64(o.Slowest),
		Backoff: o.Backoff,
		Recover: o.Recover,
		GiveUp:  o.GiveUp,
	}
	if c.Slowest == 0 {
		c.Slowest = int64(max(time.Minute, fastest))
	}
	if c.Backoff == 0 {
		c.Backoff = 2
	}
	if c.Recover == 0 {
		c.Recover = 0.9
	}
	switch {
	case fastest < 1:
		panic(fmt.Sprintf("gate: NewAdaptive: the rate must be at most one a nanosecond, got %v", r))
	case c.Slowest < c.Fastest:
		panic(fmt.Sprintf("gate: NewAdaptive: Slowest must be at least the interval of the rate, %v, got %v", fastest, o.Slowest))
	case !(c.Backoff > 1):
		panic(fmt.Sprintf("gate: NewAdaptive: Backoff must be above 1, got %v", o.Backoff))
	case c.Backoff > 1e9:
		panic(fmt.Sprintf("gate: NewAdaptive: Backoff must be at most 1e9, got %v", o.Backoff))
	case !(c.Recover > 0 && c.Recover < 1):
		panic(fmt.Sprintf("gate: NewAdaptive: Recover must be between 0 and 1, got %v", o.Recover))
	case c.GiveUp < 0:
		panic(fmt.Sprintf("gate: NewAdaptive: GiveUp must not be negative, got %d", c.GiveUp))
	}
	g := &Adaptive{
		clk:   timing.New(o.Clock),
		asked: r,
		state: schedule.New(int64(r.Count()), int64(r.Span()), o.Burst, 0),
		step:  adapt.New(c),
		fades: fadesAfter(c.Slowest),
	}
	g.state.Track()
	g.n.init(g.member(), g.clk)
	g.n.absent.state = &g.state
	g.n.alarm.Tune(timing.Auto, g.step.Interval(), g.state.Slack())
	return g
}

// Enter is described at [Gate]. A cost above the burst is a *[CapacityError]. When the gate
// has given up, it is [ErrGaveUp].
func (g *Adaptive) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Adaptive.Enter", ctx, cost)
	if err := timing.Ended(ctx); err != nil {
		g.n.lane.abandoned.Add(1)
		return Pass{}, err
	}
	mark, err := g.n.lane.enter(ctx, cost, nil)
	if err != nil {
		return Pass{}, err
	}
	return Pass{(*adaptiveKeeper)(g), mark, cost}, nil
}

// TryEnter is described at [Gate]. When the gate has given up, it refuses.
func (g *Adaptive) TryEnter(cost int) (Pass, bool) {
	checkCost("Adaptive.TryEnter", cost)
	mark, ok := g.n.lane.tryEnter(cost, nil)
	if !ok {
		g.n.lane.refused.Add(1)
		return Pass{}, false
	}
	return Pass{(*adaptiveKeeper)(g), mark, cost}, true
}

// Interval returns the time from one entry to the next, as it is now.
func (g *Adaptive) Interval() time.Duration {
	d := g.n.lock()
	defer d.unlock()
	g.fade(g.n.lane.read(d))
	return time.Duration(g.step.Interval())
}

// Hold keeps everyone out, whoever waits and whoever comes, until d from now. Then one
// token is there, and the others come at the pace of the time, so that nobody bursts. A
// hold is never shortened: one that would end earlier than another does nothing, nor does
// a d that is not positive.
func (g *Adaptive) Hold(d time.Duration) {
	if d > 0 {
		g.n.change(func(now int64) { g.state.Hold(timing.Later(now, d)) })
	}
}

// Reset makes the gate forget what it has learned: it goes on at the rate asked for, also if
// it had given up. A hold stays.
func (g *Adaptive) Reset() {
	g.n.change(func(now int64) {
		g.heard = 0
		g.step.Reset()
		g.repace(now)
	})
}

// Stats returns the statistics of the gate at this instant. It is idle only at the pace asked
// for, and not where that is being tried or a throttle counts towards GiveUp.
func (g *Adaptive) Stats() Stats {
	d := g.n.lock()
	defer d.unlock()
	now := g.n.lane.read(d)
	g.fade(now)
	idle := g.state.Full(now) && g.step.Fresh()
	return g.n.stats(now, 0, g.state.Held(), idle)
}

// repace brings the schedule in line with the interval.
func (g *Adaptive) repace(now int64) {
	n, span := int64(1), g.step.Interval()
	if span == int64(g.asked.Interval()) {
		n, span = int64(g.asked.Count()), int64(g.asked.Span())
	}
	g.state.Repace(now, g.last, n, span)
	g.n.alarm.Tune(timing.Auto, g.step.Interval(), g.state.Slack())
}

// adaptiveMember is the Adaptive that its domain sees.
type adaptiveMember Adaptive

func (g *Adaptive) member() member { return (*adaptiveMember)(g) }

func (m *adaptiveMember) node() *node { return &m.n }
func (m *adaptiveMember) sync()       {}
func (m *adaptiveMember) open(int64)  {}
func (m *adaptiveMember) broken() error {
	(*Adaptive)(m).fade(m.n.now) // whatever is asked of a member, this is asked first
	if m.step.GaveUp() {
		return ErrGaveUp
	}
	return nil
}
func (m *adaptiveMember) limit() int             { return m.state.Limit() }
func (m *adaptiveMember) arrive(now int64) int64 { return m.state.Arrive(now) }
func (m *adaptiveMember) due(_, since int64, cost int) int64 {
	return m.state.Due(since, 0, cost)
}
func (m *adaptiveMember) plan(now int64, ahead uint64, cost, _ int) (least, latest int64) {
	at := m.state.Due(now, ahead, cost)
	return at, at
}
func (m *adaptiveMember) outlook(now int64) outlook { return &sumOutlook{m: m, now: now} }
func (m *adaptiveMember) take(now, since int64, cost int) uint64 {
	m.state.Take(now, since, cost)
	m.last, m.heard = now, now
	return m.step.Grant(now)
}
func (m *adaptiveMember) woke(now, granted int64) { m.state.Woke(now, granted) }
func (m *adaptiveMember) Stats() Stats            { return (*Adaptive)(m).Stats() }

func (m *adaptiveMember) leave(mark uint64, _ int, err error) {
	g := (*Adaptive)(m)
	if err == nil {
		// Most successes change nothing: those who wait need not be looked at.
		d := m.n.lock()
		before := m.step.Interval()
		if m.step.Success(mark) {
			now := m.n.lane.read(d)
			g.repace(now)
			g.n.follow(now)
			if m.step.Interval() > before {
				g.n.replan(d)
			} else {
				g.n.revisit(d) // no deadline has come out of reach
			}
		}
		d.unlock()
		return
	}
	t, ok := errors.AsType[*ThrottledError](err)
	if !ok || t == nil {
		return
	}
	m.n.change(func(now int64) {
		g.fade(now)
		m.heard = now
		if m.step.Throttle(mark, int64(t.After)) {
			g.repace(now)
			m.state.Spend(now, timing.Later(m.last, time.Duration(m.step.Interval())))
		}
		if t.After > 0 {
			m.state.Hold(timing.Later(now, t.After))
		}
	})
}

func (m *adaptiveMember) undo(now int64, mark uint64, cost int, granted int64) (later bool) {
	(*Adaptive)(m).fade(now)
	m.state.Undo(now, granted, m.entry(mark), cost)
	return true // lateness until here is of no account
}

func (m *adaptiveMember) settle(now int64, mark uint64, cost, actual int) (later bool) {
	(*Adaptive)(m).fade(now)
	m.state.Settle(now, m.entry(mark), cost, actual)
	return true
}

func (m *adaptiveMember) bucket() *schedule.Schedule { return &m.state }

// entry: the mark ends in the number of the entry.
func (m *adaptiveMember) entry(mark uint64) uint64 { return m.state.Numbered(uint32(mark)) }

// adaptiveKeeper is the Adaptive that a pass goes back to.
type adaptiveKeeper Adaptive

func (k *adaptiveKeeper) Leave(mark uint64, cost int, err error) {
	(*adaptiveMember)(k).leave(mark, cost, err)
}
func (k *adaptiveKeeper) Settle(mark uint64, cost, actual int) {
	k.n.lane.settle([]uint64{mark}, cost, actual)
}
