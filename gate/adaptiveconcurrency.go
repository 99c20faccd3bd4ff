package gate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/adapt"
	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/timing"
)

// AdaptiveConcurrencyOptions are the settings of an [AdaptiveConcurrency]. Nil, as well as the zero value, means
// the defaults.
type AdaptiveConcurrencyOptions struct {
	// Least is the lowest limit that the gate backs off to. 0 means 1.
	Least int

	// Backoff is what the number of slots in use is divided by when the far side refuses and no limit is known to
	// work. 0 means 2, and 1e9 is the most.
	Backoff float64

	// Latency is the ceiling on latency: a success counts as refused if it is left later than this after its
	// grant. The ceiling is kept to a thousandth of it. 0 means that there is none. Use it for a far side that
	// gets slow instead of refusing.
	Latency time.Duration

	// Clock is where the time comes from. Nil means the real clock.
	Clock clock.Clock
}

// AdaptiveConcurrency is a [Concurrency] with a limit that follows the far side. Use it for what takes so many calls
// at a time, but does not say how many. That may be an API, a database, or a back end of your own.
//
// It begins with n slots, and never has more. n is your own bound, such as the number of connections.
//
// # What it learns from
//
// It learns from the error that each pass is left with, so leave every pass:
//
//   - nil is a success, unless the entry took longer than the ceiling on latency.
//   - A *[ThrottledError], see [Throttled], is a refusal.
//   - A timeout is a refusal, too: [context.DeadlineExceeded], or an error with a method Timeout that returns
//     true. A *[DeadlineError], of another gate, is not.
//   - Any other error is ignored, such as that of a caller that has canceled its work.
//
// # How the limit moves
//
// As long as no limit is known to work, a refusal divides the number of slots in use by Backoff, and that is the
// limit. A generation lasts until the limit shrinks. Refusals of earlier entries do not change the limit, so a burst
// of them counts once. When Leave with such a refusal returns, no entry is admitted before the slots in use have come
// down to the new limit.
//
// A limit is proven when as many slots as it has have come back well. Then the gate tries a higher one. That is
// halfway to the one that failed, if it is known, and otherwise higher in growing steps. Refused entries of such a
// trial bring the proven limit back, and put off the next trial. The limit does not grow while entries leave slots
// free.
//
// When the proven limit itself is refused, it shrinks by a tenth, or to the one before if that was proven lately. If
// that is refused, too, Backoff applies.
//
// A far side can refuse some calls whatever their number. So the gate compares the share of refused entries with
// that at clearly other limits. A refusal counts only if refusals have become more frequent. Above a share of a
// quarter, all refusals count. Type Slots of internal/adapt has the rules and their sources.
//
// The gate measures no latency to guess a limit from. If it gets slow, the far side may be overloaded, or the work
// may be more. Only a ceiling tells.
//
// # Retry-After
//
// A refusal with a Retry-After holds the gate for that long, whatever its generation, unless it does not count. If it
// ended a trial, no trial follows for 16 times as long.
//
// # Costs
//
// Entries cost slots, as at a [Concurrency], in order of arrival. An entry that costs more than the present limit,
// but not more than n, is admitted when no other entry is in flight. Meanwhile no later entry is admitted, so it
// does not starve.
//
// # Forgetting
//
// The gate forgets what it has learned, as by [AdaptiveConcurrency.Reset], an hour after the last entry, refusal or
// hold. While callers wait or slots are in use, it forgets nothing.
//
// Every entry takes a lock when it is made and when it is left, some 150 ns in all, and allocates nothing. Make one
// with [NewAdaptiveConcurrency]; the zero value does not work.
type AdaptiveConcurrency struct{ l *adaptiveSlots }

// adaptiveSlots is an AdaptiveConcurrency as its queue sees it. The lock of the group guards all that is not fixed.
type adaptiveSlots struct {
	single
	most  int64 // fixed
	step  adapt.Slots
	used  int64 // slots
	held  int64 // the end of the hold: no entry is admitted before
	heard int64 // instant of the last grant, leave or refusal; 0: there is nothing to forget
}

// NewAdaptiveConcurrency returns a gate for at most n slots, all of them free. Nil options mean the defaults.
//
// It panics if n is less than 1 or above 2^40, or if an option is negative. It panics on a Least above n, and on a
// Backoff that is not above 1 or is above 1e9.
func NewAdaptiveConcurrency(n int, o *AdaptiveConcurrencyOptions) *AdaptiveConcurrency {
	if o == nil {
		o = &AdaptiveConcurrencyOptions{}
	}
	checkSlots("NewAdaptiveConcurrency", n)
	c := adapt.SlotsConfig{
		Most:    int64(n),
		Least:   int64(max(o.Least, 1)),
		Backoff: o.Backoff,
		Latency: int64(o.Latency),
	}
	if c.Backoff == 0 {
		c.Backoff = 2
	}
	switch {
	case o.Least < 0:
		panic(fmt.Sprintf("gate: NewAdaptiveConcurrency: Least must not be negative, got %d", o.Least))
	case o.Least > n:
		panic(fmt.Sprintf("gate: NewAdaptiveConcurrency: Least must be at most n, which is %d, got %d", n, o.Least))
	case !(c.Backoff > 1):
		panic(fmt.Sprintf("gate: NewAdaptiveConcurrency: Backoff must be above 1, got %v", o.Backoff))
	case c.Backoff > 1e9:
		panic(fmt.Sprintf("gate: NewAdaptiveConcurrency: Backoff must be at most 1e9, got %v", o.Backoff))
	case o.Latency < 0:
		panic(fmt.Sprintf("gate: NewAdaptiveConcurrency: Latency must not be negative, got %v", o.Latency))
	}
	l := &adaptiveSlots{most: c.Most, step: adapt.NewSlots(c)}
	l.init(l, timing.New(o.Clock), kind{name: "adaptiveconcurrency", answers: true, learns: true, keeps: true})
	return &AdaptiveConcurrency{l}
}

// limit returns the gate as its queue sees it. It panics on the zero value.
func (g *AdaptiveConcurrency) limit() *adaptiveSlots {
	if g.l == nil {
		panicOnZero()
	}
	return g.l
}

// Enter is described at [Gate]. A cost above n is a *[CapacityError]. It is not known when a slot will be free, so
// only a hold that outlasts the deadline is a *[DeadlineError].
func (g *AdaptiveConcurrency) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("AdaptiveConcurrency.Enter", ctx, cost)
	l := g.limit()
	if err := l.ended(ctx, cost); err != nil {
		return Pass{}, err
	}
	mark, err := l.enter(ctx, cost)
	if err != nil {
		return Pass{}, err
	}
	return l.track(g, newTicket(l, queue.Claim{Cost: cost, Mark: mark}), cost), nil
}

// TryEnter is described at [Gate].
func (g *AdaptiveConcurrency) TryEnter(cost int) (Pass, bool) {
	checkCost("AdaptiveConcurrency.TryEnter", cost)
	l := g.limit()
	mark, ok := l.tryEnter(cost)
	if !ok {
		return Pass{}, false
	}
	return l.track(g, newTicket(l, queue.Claim{Cost: cost, Mark: mark}), cost), true
}

// Limit returns the present limit: how many slots may be in use. Use it to see what the gate has learned.
func (g *AdaptiveConcurrency) Limit() (n int) {
	l := g.limit()
	l.View(func(now int64) {
		l.fade(now)
		n = int(l.step.Limit())
	})
	return n
}

// Hold makes the gate admit no entry, waiting or new, until d from now. Use it when the far side asks for a
// pause. Afterwards as many are admitted as the limit has room for.
//
// Hold never shortens a hold: if it would end earlier than the present one, it does nothing. Nor does it if d
// is not positive.
func (g *AdaptiveConcurrency) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	l, longer := g.limit(), false
	l.Change(func(now int64) queue.Effect {
		longer = l.hold(now, d)
		return queue.Later
	})
	l.heldFor(longer, d)
}

// Resume ends a hold now, also that of a Retry-After, for all waiters at once: as many are admitted as the limit has
// room for. Use it when the far side is known to be back. It does not change the limit;
// [AdaptiveConcurrency.Reset] does. Without a hold it does nothing.
func (g *AdaptiveConcurrency) Resume() {
	l, held := g.limit(), false
	l.Change(func(now int64) queue.Effect {
		held = l.held > now
		l.held = min(l.held, now)
		return queue.Sooner
	})
	l.resumed(held)
}

// Reset makes the gate forget what it has learned: its limit is n again. A hold stays;
// [AdaptiveConcurrency.Resume] ends it.
func (g *AdaptiveConcurrency) Reset() {
	l := g.limit()
	l.Change(func(int64) queue.Effect {
		l.forget()
		return queue.Sooner
	})
	l.replanned()
}

// Stats returns the statistics of the gate at this instant. InUse is the number of slots in use. The gate is not
// Idle while it remembers that an entry was refused.
func (g *AdaptiveConcurrency) Stats() Stats { return g.limit().Stats() }

func (l *adaptiveSlots) Stats() (s Stats) {
	l.View(func(now int64) {
		l.fade(now)
		s = l.stats(now, l.held)
		s.InUse = int(min(l.used, math.MaxInt))
		s.Left, _ = l.present(now)
		s.Idle = l.used == 0 && l.held <= now && s.Waiting == 0 && l.step.Fresh()
	})
	return s
}

func (l *adaptiveSlots) describe() string { return fmt.Sprintf("an AdaptiveConcurrency of %d", l.most) }

func (g *AdaptiveConcurrency) member() member { return g.limit() }
func (g *AdaptiveConcurrency) part() part     { return g.limit() }

// restsAt returns when all is forgotten. It is not known when slots come back.
func (l *adaptiveSlots) restsAt(int64) (at int64) {
	l.View(func(now int64) {
		l.fade(now)
		switch {
		case l.used > 0:
			at = unknown
		case l.step.Fresh():
			at = l.resting(now, max(now, l.held))
		default:
			at = l.resting(now, l.faded())
		}
	})
	return at
}

// fade forgets what was learned, if it is time. It is called before the limit answers anything, so it needs no
// alarm. While an entry waits or slots are in use, nothing fades.
func (l *adaptiveSlots) fade(now int64) {
	if l.heard != 0 && l.used == 0 && !l.Wanted() && now >= l.faded() {
		l.forget()
	}
}

// forget makes the limit n again.
func (l *adaptiveSlots) forget() {
	l.heard = 0
	l.step.Reset()
}

// faded returns the instant at which all is forgotten, if nothing happens until then. It counts from the end of a
// hold.
func (l *adaptiveSlots) faded() int64 { return timing.Later(max(l.heard, l.held), fadeTime) }

func (l *adaptiveSlots) hold(now int64, d time.Duration) (longer bool) {
	until := timing.Later(now, d)
	longer = until > l.held
	l.held = max(l.held, until)
	return longer
}

// Capacity also lets what was learned fade: the queue calls it for every entry before anything else.
func (l *adaptiveSlots) Capacity() int {
	l.fade(l.Now())
	return int(l.most)
}

// Due admits an entry that exceeds the limit by itself when nothing is in use.
func (l *adaptiveSlots) Due(_, since int64, _ uint64, cost int) int64 {
	if l.used > 0 && l.used+int64(cost) > l.step.Limit() {
		return never
	}
	return max(since, l.held)
}

// Plan knows of holds alone: it is not known when slots come back.
func (l *adaptiveSlots) Plan(now int64, _ uint64, _, _ int) (least, latest int64) {
	at := max(now, l.held)
	return at, at
}

func (l *adaptiveSlots) Outlook(now int64) queue.Outlook { return slotsOutlook(max(now, l.held)) }

// slotsOutlook is the simulation that Plan makes: all entries are admitted at that instant.
type slotsOutlook int64

func (o slotsOutlook) Turn(int) int64 { return int64(o) }
func (o slotsOutlook) Stays(int)      {}

func (l *adaptiveSlots) Take(now, _ int64, cost int) (mark uint64) {
	l.used += slots(cost)
	l.heard = now
	return l.step.Grant(now, slots(cost), l.used)
}

func (l *adaptiveSlots) Settle(now int64, mark uint64, cost, actual int) queue.Effect {
	if mark == leftMark {
		return queue.None
	}
	l.heard = now
	l.used += slots(actual) - slots(cost)
	return queue.Sooner // also if fewer are free: no wait is estimated from slots
}

func (l *adaptiveSlots) Undo(now int64, mark uint64, cost int) queue.Effect {
	return l.Settle(now, mark, cost, 0)
}

// leave learns from the error of the work and gives its slots back, at one instant.
func (l *adaptiveSlots) leave(c queue.Claim, err error) (mark uint64) {
	verdict, after := judge(err)
	var learned, longer bool
	l.Change(func(now int64) queue.Effect {
		limit, effect := l.step.Limit(), queue.Sooner // no wait is estimated from the limit
		l.used -= slots(c.Cost)
		l.heard = now
		switch verdict {
		case wentWell:
			l.step.Success(now, c.Mark, slots(c.Cost))
		case wasRefused:
			if _, counts := l.step.Refused(now, c.Mark, int64(after)); counts && after > 0 {
				longer = l.hold(now, after)
				effect = queue.Later
			}
		}
		learned = l.step.Limit() != limit
		return effect
	})
	if err != nil {
		l.throttledBy(c.Cost, err)
	}
	l.heldFor(longer, after)
	if learned {
		l.replanned()
	}
	return leftMark
}

// The verdicts of judge.
type verdict int

const (
	toldNothing verdict = iota
	wentWell
	wasRefused
)

// judge says what the error of the work tells about the far side, and what its Retry-After is.
func judge(err error) (v verdict, after time.Duration) {
	if err == nil {
		return wentWell, 0
	}
	if t, ok := errors.AsType[*ThrottledError](err); ok {
		if t == nil {
			return toldNothing, 0 // and it can't be unwrapped
		}
		return wasRefused, t.After
	}
	if _, ok := errors.AsType[*DeadlineError](err); ok {
		return toldNothing, 0 // its call was never made
	}
	if t, ok := errors.AsType[timeout](err); ok && t.Timeout() {
		return wasRefused, 0
	}
	return toldNothing, 0
}

// timeout is what net.Error has in common with context.DeadlineExceeded and os.ErrDeadlineExceeded.
type timeout interface {
	error
	Timeout() bool
}
