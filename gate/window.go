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
// spacing see [Rate]. It remembers the instants of at most n entries, 16 bytes each, those settled to
// nothing aside.
// Make one with [NewWindow]; the zero value does not work.
type Window struct {
	clk  *timing.Clock
	n    node
	most int
	span int64 // guard included

	// All below is guarded by the domain.
	log  ring
	used int   // tokens in the log that still count
	held int64 // nobody enters before
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
	return g
}

// Enter is described at [Gate]. A cost above n is a *[CapacityError].
func (g *Window) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Window.Enter", ctx, cost)
	if err := ended(ctx); err != nil {
		g.n.lane.abandoned.Add(1)
		return Pass{}, err
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
	now := g.clk.Now()
	d.sync(g.n.self, now)
	g.expire(now)
	return g.n.stats(now, g.used, g.held, g.used == 0 && g.held <= now)
}

// expire forgets what counts no more.
func (g *Window) expire(now int64) {
	for g.log.len() > 0 {
		first := g.log.at(0)
		if first.tokens > 0 && timing.Later(first.at, time.Duration(g.span)) > now {
			return
		}
		g.used -= first.tokens
		g.log.pop()
	}
}

// freed returns the instant at which the first tokens of the log no longer count. There
// are that many.
func (g *Window) freed(tokens int) int64 {
	for i := 0; ; i++ {
		r := g.log.at(i)
		if tokens -= r.tokens; tokens <= 0 {
			return timing.Later(r.at, time.Duration(g.span))
		}
	}
}

// windowMember is the Window that its domain sees.
type windowMember Window

func (g *Window) member() member { return (*windowMember)(g) }

func (m *windowMember) Stats() Stats           { return (*Window)(m).Stats() }
func (m *windowMember) node() *node            { return &m.n }
func (m *windowMember) sync()                  {}
func (m *windowMember) open(int64)             {}
func (m *windowMember) limit() int             { return m.most }
func (m *windowMember) arrive(now int64) int64 { return now }

func (m *windowMember) due(now, since int64, cost int) int64 {
	g := (*Window)(m)
	g.expire(now)
	at := max(since, m.held)
	if over := m.used + cost - m.most; over > 0 {
		at = max(at, g.freed(over))
	}
	return at
}

// plan counts the tokens that must have been freed before the entry can go. Those
// beyond the log are of entries that are still to come, each a span after the one that is
// n tokens before it.
func (m *windowMember) plan(now, since int64, ahead uint64, cost int) int64 {
	g := (*Window)(m)
	g.expire(now)
	at := max(since, m.held)
	tokens := add(ahead, cost)
	if free := m.most - m.used; free >= 0 {
		tokens -= min(tokens, uint64(free))
	} else {
		tokens = add(tokens, -free)
	}
	if tokens == 0 {
		return at
	}
	rounds := uint64(0)
	if used := uint64(max(m.used, 0)); tokens > used {
		rounds = (tokens - used + uint64(m.most) - 1) / uint64(m.most)
		tokens -= min(tokens, rounds*uint64(m.most))
	}
	if tokens > 0 {
		at = max(at, g.freed(int(tokens)))
	}
	if m.span > 0 && rounds > uint64(never/m.span) {
		return never
	}
	return timing.Later(at, time.Duration(rounds*uint64(m.span)))
}

func (m *windowMember) take(now, _ int64, cost int) uint64 {
	m.used += cost
	return m.log.push(run{now, cost})
}

func (m *windowMember) leave(uint64, int, error) {}
func (m *windowMember) settle(mark uint64, cost, actual int) {
	m.n.change(func(now int64) {
		(*Window)(m).expire(now)
		if r := m.log.find(mark); r != nil {
			r.tokens += actual - cost
			m.used += actual - cost
			m.log.trim()
		}
	})
}

// windowKeeper is the Window that a pass goes back to.
type windowKeeper Window

func (k *windowKeeper) Leave(uint64, int, error) {}
func (k *windowKeeper) Settle(mark uint64, cost, actual int) {
	(*windowMember)(k).settle(mark, cost, actual)
}

// run is what one entry has used: tokens, at an instant.
type run struct {
	at     int64
	tokens int
}

// ring is a queue of runs, numbered from the first that was ever pushed.
type ring struct {
	buf   []run  // a power of two long
	first uint64 // number of the oldest run
	next  uint64 // number of the one after the newest
}

func (r *ring) len() int                { return int(r.next - r.first) }
func (r *ring) slot(number uint64) *run { return &r.buf[number&uint64(len(r.buf)-1)] }
func (r *ring) at(i int) *run           { return r.slot(r.first + uint64(i)) }
func (r *ring) pop()                    { r.first++ }

// trim forgets the newest runs as far as they are empty.
func (r *ring) trim() {
	for r.next != r.first && r.slot(r.next-1).tokens == 0 {
		r.next--
	}
}

func (r *ring) push(v run) (number uint64) {
	if r.len() == len(r.buf) {
		bigger := make([]run, max(8, 2*len(r.buf)))
		for i := r.first; i != r.next; i++ {
			bigger[i&uint64(len(bigger)-1)] = *r.slot(i)
		}
		r.buf = bigger
	}
	*r.slot(r.next) = v
	r.next++
	return r.next - 1
}

// find returns the run with the given number, or nil if it is forgotten.
func (r *ring) find(number uint64) *run {
	if number < r.first || number >= r.next {
		return nil
	}
	return r.slot(number)
}
