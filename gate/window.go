package gate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/timing"
)

// WindowOptions are the settings of a [Window]. Nil, as well as the zero value, means
// the defaults.
type WindowOptions struct {
	// Guard widens the span, because the far side counts arrivals and not departures:
	// what leaves evenly arrives with the jitter of the network, and a window that was
	// just full here is overfull there. Take as much as the calls' time under way
	// varies. 0 means none.
	Guard time.Duration

	// Clock is where the time comes from. Nil means the real clock.
	Clock clock.Clock
}

// Window is a gate for at most n tokens in any span of time, wherever it is laid: a
// sliding window log, exact by the instants of the grants. A span is half open: a token
// that went at t counts until just before t + span. It is the right gate for an API that
// documents a sliding window, and a safe one for a fixed window, whose beginning only
// the API knows.
//
// It lets n go at once and then nobody until the first of them is span ago; for even
// spacing see [Rate]. It remembers the entries of the last span, at most n apart from those
// settled to nothing, in 24 bytes each.
//
// Entering when there is room takes no lock and allocates nothing. Make one with
// [NewWindow]; the zero value does not work.
type Window struct {
	clk  *timing.Clock
	log  atomic.Pointer[windowLog] // replaced under the domain's lock
	most int
	span int64 // guard included
	held int64 // guarded by the domain: nobody enters before
	back int64 // guarded by the domain: when tokens were last given back
	n    node
}

// NewWindow returns a gate for at most n tokens in any span, none of them used. It
// panics if n is less than 1, the span not positive, or the guard negative.
func NewWindow(n int, span time.Duration, o *WindowOptions) *Window {
	if n < 1 {
		panic(fmt.Sprintf("gate: NewWindow: n must be at least 1, got %d", n))
	}
	if span < 1 {
		panic(fmt.Sprintf("gate: NewWindow: span must be positive, got %v", span))
	}
	if o == nil {
		o = &WindowOptions{}
	}
	if o.Guard < 0 {
		panic(fmt.Sprintf("gate: NewWindow: Guard must not be negative, got %v", o.Guard))
	}
	g := &Window{clk: timing.New(o.Clock), most: n, span: timing.Later(int64(span), o.Guard)}
	g.n.init(g.member(), g.clk)
	g.n.alarm.Tune(timing.Auto, g.span/int64(n), 0)
	g.log.Store(newWindowLog(8))
	g.log.Load().open()
	return g
}

// Enter is described at [Gate]. A cost above n is a *[CapacityError].
func (g *Window) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Window.Enter", ctx, cost)
	if timing.Closed(ctx.Done()) {
		g.n.lane.abandoned.Add(1)
		return Pass{}, context.Cause(ctx)
	}
	mark, found := g.pick(cost)
	if found != picked {
		var err error
		if mark, err = g.n.lane.enter(ctx, cost, nil); err != nil {
			return Pass{}, err
		}
	}
	return Pass{(*windowKeeper)(g), mark, cost}, nil
}

// TryEnter is described at [Gate].
func (g *Window) TryEnter(cost int) (Pass, bool) {
	checkCost("Window.TryEnter", cost)
	mark, found := g.pick(cost)
	ok := found == picked
	if found == busy {
		mark, ok = g.n.lane.tryEnter(cost, nil)
	}
	if !ok {
		g.n.lane.refused.Add(1)
		return Pass{}, false
	}
	return Pass{(*windowKeeper)(g), mark, cost}, true
}

// pick tries to enter without the lock.
func (g *Window) pick(cost int) (mark uint64, _ pick) {
	for {
		number, found := g.log.Load().take(g.clk, g.span, g.most, cost)
		if found == picked {
			g.n.granted.Add(1)
		}
		if found != again {
			return uint64(number), found
		}
	}
}

// Hold keeps everyone out, whoever waits and whoever comes, until d from now. Then as
// many may go as the window has room for. A hold is never shortened: one that would end
// earlier than another does nothing, nor does a d that is not positive.
func (g *Window) Hold(d time.Duration) {
	if d > 0 {
		g.n.change(func(now int64) { g.held = max(g.held, timing.Later(now, d)) })
	}
}

// Stats returns the statistics of the gate at this instant.
func (g *Window) Stats() Stats {
	d := g.n.lock()
	defer d.unlock()
	now := g.n.lane.read(d)
	log := g.log.Load()
	used := log.used(log.expire(now, g.span))
	return g.n.stats(now, used, g.held, used == 0 && g.held <= now)
}

// over returns the instant at which what went at the given one no longer counts.
func (g *Window) over(at int64) int64 { return timing.Later(at, time.Duration(g.span)) }

// windowMember is the Window that its domain sees.
type windowMember Window

func (g *Window) member() member { return (*windowMember)(g) }

func (m *windowMember) Stats() Stats { return (*Window)(m).Stats() }
func (m *windowMember) node() *node  { return &m.n }
func (m *windowMember) sync()        { m.log.Load().close() }
func (m *windowMember) open(now int64) {
	if m.held <= now {
		m.log.Load().open()
	}
}
func (m *windowMember) broken() error          { return nil }
func (m *windowMember) limit() int             { return m.most }
func (m *windowMember) arrive(now int64) int64 { return now }

func (m *windowMember) due(now, since int64, cost int) int64 {
	g, log := (*Window)(m), m.log.Load()
	first := log.expire(now, m.span)
	at := max(since, m.held)
	if tokens := log.used(first) + cost - m.most; tokens > 0 {
		return max(at, g.over(log.holder(first, tokens)))
	}
	// There may have been no room until the last run ceased to count, or until tokens were
	// given back. Who waited for it is due from then on, not from when it came.
	last, _ := log.read(first - 1)
	return max(at, min(now, m.back), g.over(last))
}

// plan counts the tokens that must have been freed before the entry can go. Those
// beyond the log are of entries that are still to come, each a span after the one that is
// n tokens before it.
func (m *windowMember) plan(now, since int64, ahead uint64, cost int) int64 {
	g, log := (*Window)(m), m.log.Load()
	first := log.expire(now, m.span)
	count := log.used(first)
	at := max(since, m.held)
	tokens := add(ahead, cost)
	if free := m.most - count; free >= 0 {
		tokens -= min(tokens, uint64(free))
	} else {
		tokens = add(tokens, -free)
	}
	if tokens == 0 {
		return at
	}
	rounds := uint64(0)
	if used := uint64(count); tokens > used {
		rounds = (tokens - used + uint64(m.most) - 1) / uint64(m.most)
		tokens -= min(tokens, rounds*uint64(m.most))
	}
	if tokens > 0 {
		at = max(at, g.over(log.holder(first, int(tokens))))
	}
	if m.span > 0 && rounds > uint64(never/m.span) {
		return never
	}
	return timing.Later(at, time.Duration(rounds*uint64(m.span)))
}

func (m *windowMember) take(now, _ int64, cost int) uint64 {
	log, mark := m.log.Load().push(now, cost)
	m.log.Store(log)
	return uint64(mark)
}

func (m *windowMember) woke(int64, int64)                   {}
func (m *windowMember) leave(uint64, int, error)            {}
func (m *windowMember) undo(mark uint64, cost int, _ int64) { m.settle(mark, cost, 0) }
func (m *windowMember) settle(mark uint64, cost, actual int) {
	m.n.change(func(now int64) {
		log := m.log.Load()
		log.expire(now, m.span)
		log.settle(uint32(mark), actual-cost)
		m.back = now
	})
}

// windowKeeper is the Window that a pass goes back to.
type windowKeeper Window

func (k *windowKeeper) Leave(uint64, int, error) {}
func (k *windowKeeper) Settle(mark uint64, cost, actual int) {
	(*windowMember)(k).settle(mark, cost, actual)
}
