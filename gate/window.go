package gate

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// WindowOptions are the settings of a [Window]. Nil, as well as the zero value, means
// the defaults.
type WindowOptions struct {
	// Guard is added to the span. Use it because the far side counts arrivals, and the network bunches calls
	// that left evenly. Set it to the difference between the longest and the shortest time that a call
	// takes to arrive. 0 means none.
	Guard time.Duration

	// UntilAnswer makes an entry count from its grant until one span after it was left. Without it, an
	// entry counts until one span after its grant. Use it in place of a Guard. The limit then holds
	// whatever the network does, because the far side counts a call before its answer is there.
	//
	// Slow calls then reduce the rate: if each call takes d, at most n go in span + d. Leave every pass, or
	// its tokens never come back. Settle it before Leave.
	UntilAnswer bool

	// Clock is where the time comes from. Nil means the real clock.
	Clock clock.Clock
}

// Window is a gate for at most n tokens in any span of time, wherever the span begins. Use it for an API that
// documents a sliding window. It is also safe for a fixed window, which begins at an instant that only the API
// knows.
//
// It is a sliding window log, exact by the instants of the grants. A span is half open: a token granted at t
// counts until just before t + span.
//
// It admits n at once, and then none until the first of them was granted a span ago. For even spacing use a
// [Rate]. It remembers the entries of the last span, in 24 bytes each: at most n, and those settled to 0.
//
// Every entry takes a lock, for a few dozen nanoseconds, and allocates nothing. Make one with [NewWindow];
// the zero value does not work.
type Window struct{ l *windowLimit }

// windowLimit is a Window as its queue sees it. The lock of the group guards all that is not fixed.
type windowLimit struct {
	single
	guard time.Duration // fixed
	until bool          // fixed: entries count until a span after they have left
	most  int
	asked time.Duration // the span as it was set
	span  int64         // guard included
	held  int64         // the end of the hold: no entry is admitted before
	open  total         // if until: the cost of entries that have yet to leave; they are not in the log
	log   windowLog     // of the entries that still count
	// If until: records that no pass uses, whether a pass was settled, and how many there were before that.
	// See unsettled.
	answers sync.Pool
	settles atomic.Bool
	entries atomic.Int64
	line    []run // the buffer of windowOutlook
}

// NewWindow returns a gate for at most n tokens in any span, none of them used. Nil options mean the
// defaults. It panics if n is less than 1, the span not positive, or the guard negative.
func NewWindow(n int, span time.Duration, o *WindowOptions) *Window {
	if o == nil {
		o = &WindowOptions{}
	}
	checkWindow("NewWindow", n, span)
	if o.Guard < 0 {
		panic(fmt.Sprintf("gate: NewWindow: Guard must not be negative, got %v", o.Guard))
	}
	l := &windowLimit{guard: o.Guard, until: o.UntilAnswer}
	l.init(l, timing.New(o.Clock), kind{name: "window", answers: o.UntilAnswer, keeps: o.UntilAnswer})
	l.plan(n, span)
	return &Window{l}
}

// checkWindow panics on a plan that no Window can have. name is the function, for the panic.
func checkWindow(name string, n int, span time.Duration) {
	if n < 1 {
		panic(fmt.Sprintf("gate: %s: n must be at least 1, got %d", name, n))
	}
	if span < 1 {
		panic(fmt.Sprintf("gate: %s: span must be positive, got %v", name, span))
	}
}

// plan sets the limit and tells the alarm how often entries are due. The guard is part of the span from
// here on.
func (l *windowLimit) plan(n int, span time.Duration) {
	l.most, l.asked, l.span = n, span, timing.Later(int64(span), l.guard)
	l.Tune(timing.Auto, l.span/int64(n), 0)
}

// Enter is described at [Gate]. A cost above n is a *[CapacityError].
func (g *Window) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Window.Enter", ctx, cost)
	l := g.limit()
	if timing.Closed(ctx.Done()) {
		return Pass{}, l.ended(ctx, cost)
	}
	mark, err := l.enter(ctx, cost)
	if err != nil {
		return Pass{}, err
	}
	return g.passed(mark, cost), nil
}

// TryEnter is described at [Gate].
func (g *Window) TryEnter(cost int) (Pass, bool) {
	checkCost("Window.TryEnter", cost)
	l := g.limit()
	mark, ok := l.tryEnter(cost)
	if !ok {
		return Pass{}, false
	}
	return g.passed(mark, cost), true
}

// passed returns the pass of an entry. With UntilAnswer the pass must be left, so it has a record.
func (g *Window) passed(mark uint64, cost int) Pass {
	l := g.l
	if l.until {
		return l.track(g, newAnswer(l, queue.Claim{Cost: cost, Mark: mark}), cost)
	}
	return Pass{(*windowKeeper)(l), mark, cost}
}

func (g *Window) limit() *windowLimit {
	if g.l == nil {
		panicOnZero()
	}
	return g.l
}

// SetLimit changes the number of tokens and the span, at once and for all waiters. The Guard stays. Tokens
// that still count do so by the new span; others do not count again. A waiter with a cost above n gets a
// *[CapacityError]. SetLimit panics as [NewWindow] does.
func (g *Window) SetLimit(n int, span time.Duration) {
	checkWindow("Window.SetLimit", n, span)
	l := g.limit()
	l.Change(func(now int64) queue.Effect {
		l.log.expire(now, l.span)
		l.plan(n, span)
		return queue.Later
	})
	l.replanned()
}

// Hold makes the gate admit no entry, waiting or new, until d from now. Use it when the far side asks for a
// pause. Afterwards as many are admitted as the window has room for.
//
// Hold never shortens a hold. It does nothing if d is not positive.
func (g *Window) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	l, longer := g.limit(), false
	l.Change(func(now int64) queue.Effect {
		until := timing.Later(now, d)
		longer = until > l.held
		l.held = max(l.held, until)
		return queue.Later
	})
	l.heldFor(longer, d)
}

// Resume ends a hold now, for all waiters at once: as many are admitted as the window has room for. Use it when
// the far side is known to be back. Without a hold it does nothing.
func (g *Window) Resume() {
	l, held := g.limit(), false
	l.Change(func(now int64) queue.Effect {
		held = l.held > now
		l.held = min(l.held, now)
		return queue.Sooner
	})
	l.resumed(held)
}

// Stats returns the statistics of the gate at this instant.
func (g *Window) Stats() Stats { return g.limit().Stats() }

func (l *windowLimit) Stats() (s Stats) {
	l.View(func(now int64) {
		s = l.stats(now, l.held)
		s.Left, _ = l.present(now)
		s.InUse = l.used().tokens()
		s.Idle = s.InUse == 0 && l.held <= now && s.Waiting == 0
	})
	return s
}

func (l *windowLimit) describe() (s string) {
	l.View(func(int64) {
		s = fmt.Sprintf("a Window of %d per %v", l.most, time.Duration(l.span)-l.guard)
	})
	return s
}

func (g *Window) member() member { return g.limit() }
func (g *Window) part() part     { return g.limit() }

func (l *windowLimit) restsAt(int64) (at int64) {
	l.View(func(now int64) {
		at = l.resting(now, l.Due(now, now, 0, l.most)) // when no token counts any more
	})
	return at
}

// over returns the instant from which a token granted at at no longer counts.
func (l *windowLimit) over(at int64) int64 { return timing.Later(at, time.Duration(l.span)) }

// used returns how many tokens count.
func (l *windowLimit) used() total { return l.log.used.more(l.open) }

// excess returns how many tokens must cease to count before there is room for a cost.
func (l *windowLimit) excess(cost int) total {
	if all := l.used().plus(cost); all.above(count(l.most)) {
		return all.minus(l.most)
	}
	return total{}
}

func (l *windowLimit) Capacity() int { return l.most }

func (l *windowLimit) Due(now, since int64, _ uint64, cost int) int64 {
	l.log.expire(now, l.span)
	at := max(since, l.held)
	tokens := l.excess(cost)
	switch {
	case tokens == total{}:
		return at
	case tokens.above(l.log.used):
		return never // entries must leave first
	}
	return max(at, l.over(l.log.holder(tokens)))
}

// Plan counts the tokens that must cease to count before the entry can be admitted. Beyond the log, these are
// tokens of entries that still wait. Each of them is granted a span after the one that is n tokens before it.
//
// That gives least. It is exact if the costs ahead fill the window each time. Otherwise at least
// most+1-dearest tokens are granted in each span: with fewer, the next entry would have had room. That gives
// latest. Entries that have yet to leave are taken to leave now, the earliest instant possible.
func (l *windowLimit) Plan(now int64, ahead uint64, cost, dearest int) (least, latest int64) {
	l.log.expire(now, l.span)
	least = max(now, l.held)
	need, most := plus(ahead, cost), uint64(l.most)
	latest = l.spans(least, need/uint64(max(l.most+1-dearest, 1))+1)
	rounds := uint64(0)
	if need > most {
		rounds = (need - 1) / most
		need -= rounds * most
	}
	tokens := l.excess(int(need))
	switch {
	case tokens.above(l.log.used):
		least = max(least, l.over(now))
	case tokens != total{}:
		least = max(least, l.over(l.log.holder(tokens)))
	case rounds == 0:
		return least, latest
	}
	least = l.spans(least, rounds)
	if dearest <= 1 {
		latest = least
	}
	return least, latest
}

// spans returns the instant so many spans after at.
func (l *windowLimit) spans(at int64, n uint64) int64 {
	if n > uint64(never/l.span) {
		return never
	}
	return timing.Later(at, time.Duration(n*uint64(l.span)))
}

func (l *windowLimit) Outlook(now int64) queue.Outlook {
	l.log.expire(now, l.span)
	open := l.open.tokens() // no more than a run can have: the whole run ceases to count at once
	l.line = append(l.line[:0], run{at: now, tokens: open})
	return &windowOutlook{l: l, windowView: windowView{at: max(now, l.held), used: l.log.used.plus(open), first: l.log.first}}
}

func (l *windowLimit) Take(now, _ int64, cost int) (mark uint64) {
	if l.until {
		l.open = l.open.plus(cost)
		return openMark
	}
	return l.log.push(now, cost)
}

// owe charges what a forgotten entry cost beyond what it was charged, as of now. See Composite.owe.
func (l *windowLimit) owe(more int) {
	if more > 0 {
		l.Change(func(now int64) queue.Effect {
			l.log.expire(now, l.span)
			l.log.push(now, more)
			return queue.Later
		})
	}
}

// openMark is the mark of an entry that has yet to leave. Any other mark is the number of a run in the log.
const openMark = math.MaxUint64

func (l *windowLimit) Settle(now int64, mark uint64, cost, actual int) queue.Effect {
	if mark == openMark {
		l.open = l.open.minus(cost).plus(actual)
	} else {
		l.log.expire(now, l.span)
		l.log.settle(mark, actual)
	}
	if actual > cost {
		return queue.Later
	}
	return queue.Sooner
}

func (l *windowLimit) Undo(now int64, mark uint64, cost int) queue.Effect {
	if mark == openMark {
		l.open = l.open.minus(cost)
	} else {
		l.log.expire(now, l.span)
		l.log.change(mark, 0)
	}
	return queue.Sooner
}

func (l *windowLimit) leave(c queue.Claim, _ error) (mark uint64) {
	if !l.until {
		return c.Mark
	}
	mark = c.Mark
	l.Change(func(now int64) queue.Effect {
		l.open = l.open.minus(c.Cost)
		l.log.expire(now, l.span)
		mark = l.log.push(now, c.Cost)
		return queue.Later // waits were estimated as if it left at the earliest instant
	})
	return mark
}

// plus adds a cost to a sum. It returns at most the highest uint64.
func plus(sum uint64, cost int) uint64 { return sum + min(uint64(cost), math.MaxUint64-sum) }

// windowKeeper is the Keeper of a Window's passes. It is a type of its own so that Leave and Settle are not
// methods of the limit.
type windowKeeper windowLimit

// keeper returns nil if each pass has a Keeper of its own.
func (g *Window) keeper() Keeper {
	if g.l.until {
		return nil
	}
	return (*windowKeeper)(g.l)
}

func (k *windowKeeper) Leave(_ uint64, cost int, err error) {
	if err != nil {
		k.throttledBy(cost, err)
	}
}
func (k *windowKeeper) Settle(mark uint64, cost, actual int) {
	(*windowLimit)(k).settle(mark, cost, actual)
}
