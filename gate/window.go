package gate

import (
	"context"
	"fmt"
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
// Every entry takes a lock, for a few dozen nanoseconds, and allocates nothing. Make one with
// [NewWindow]; the zero value does not work.
type Window struct {
	clk  *timing.Clock
	most int
	span int64     // guard included
	log  windowLog // guarded by the domain
	line []run     // guarded by the domain: for outlook to use again
	held int64     // guarded by the domain: no entry is admitted before
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
	return g
}

// Enter is described at [Gate]. A cost above n is a *[CapacityError].
func (g *Window) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Window.Enter", ctx, cost)
	if timing.Closed(ctx.Done()) {
		g.n.lane.abandoned.Add(1)
		return Pass{}, context.Cause(ctx)
	}
	mark, err := g.n.lane.enter(ctx, cost, nil)
	if err != nil {
		return Pass{}, err
	}
	return Pass{(*windowKeeper)(g), mark, cost}, nil
}

// TryEnter is described at [Gate].
func (g *Window) TryEnter(cost int) (Pass, bool) {
	checkCost("Window.TryEnter", cost)
	mark, ok := g.n.lane.tryEnter(cost, nil)
	if !ok {
		g.n.lane.refused.Add(1)
		return Pass{}, false
	}
	return Pass{(*windowKeeper)(g), mark, cost}, true
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
	g.log.expire(now, g.span)
	return g.n.stats(now, g.log.used, g.held, g.log.used == 0 && g.held <= now)
}

// over returns the instant at which what went at the given one no longer counts.
func (g *Window) over(at int64) int64 { return timing.Later(at, time.Duration(g.span)) }

// windowMember is the Window that its domain sees.
type windowMember Window

func (g *Window) member() member { return (*windowMember)(g) }

func (m *windowMember) Stats() Stats           { return (*Window)(m).Stats() }
func (m *windowMember) node() *node            { return &m.n }
func (m *windowMember) sync()                  {}
func (m *windowMember) open(int64)             {}
func (m *windowMember) broken() error          { return nil }
func (m *windowMember) limit() int             { return m.most }
func (m *windowMember) arrive(now int64) int64 { return now }

func (m *windowMember) due(now, since int64, cost int) int64 {
	m.log.expire(now, m.span)
	at := max(since, m.held)
	if tokens := m.log.used + cost - m.most; tokens > 0 {
		return max(at, (*Window)(m).over(m.log.holder(tokens)))
	}
	// A waiter is due from the instant on at which there was room for it, not from its arrival.
	return max(at, min(now, m.log.freed))
}

// plan counts the tokens that must have been freed before the entry can go. Those beyond the log are
// of entries that are still to come, each a span after the one that is n tokens before it. That is
// when the entry goes if the costs before it fill the window each time; if they don't, there are at
// least most+1-dearest tokens in each span, or the next of them would have gone, too.
func (m *windowMember) plan(now int64, ahead uint64, cost, dearest int) (least, latest int64) {
	g := (*Window)(m)
	m.log.expire(now, m.span)
	least = max(now, m.held)
	tokens := add(ahead, cost)
	spans := tokens/uint64(max(m.most+1-dearest, 1)) + 1
	latest = g.spans(least, spans)
	if free := m.most - m.log.used; free >= 0 {
		tokens -= min(tokens, uint64(free))
	} else {
		tokens = add(tokens, -free)
	}
	if tokens == 0 {
		return least, latest
	}
	rounds := uint64(0)
	if used := uint64(m.log.used); tokens > used {
		rounds = (tokens - used + uint64(m.most) - 1) / uint64(m.most)
		tokens -= min(tokens, rounds*uint64(m.most))
	}
	if tokens > 0 {
		least = max(least, g.over(m.log.holder(int(tokens))))
	}
	least = g.spans(least, rounds)
	if dearest <= 1 {
		latest = least
	}
	return least, latest
}

// spans returns the instant so many spans after at.
func (g *Window) spans(at int64, n uint64) int64 {
	if n > uint64(never/g.span) {
		return never
	}
	return timing.Later(at, time.Duration(n*uint64(g.span)))
}

func (m *windowMember) outlook(now int64) outlook {
	m.log.expire(now, m.span)
	m.line = m.line[:0]
	return &windowOutlook{m: m, windowView: windowView{at: max(now, m.held), used: m.log.used, first: m.log.first}}
}

func (m *windowMember) take(now, _ int64, cost int) uint64 { return m.log.push(now, cost) }

func (m *windowMember) woke(int64, int64)        {}
func (m *windowMember) leave(uint64, int, error) {}
func (m *windowMember) undo(now int64, mark uint64, _ int, _ int64) (later bool) {
	m.log.expire(now, m.span)
	m.log.change(now, mark, 0)
	return false
}
func (m *windowMember) settle(now int64, mark uint64, cost, actual int) (later bool) {
	m.log.expire(now, m.span)
	m.log.settle(now, mark, actual)
	return actual > cost
}

// windowKeeper is the Window that a pass goes back to.
type windowKeeper Window

func (k *windowKeeper) Leave(uint64, int, error) {}
func (k *windowKeeper) Settle(mark uint64, cost, actual int) {
	k.n.lane.settle([]uint64{mark}, cost, actual)
}
