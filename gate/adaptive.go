package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/adapt"
	"github.com/escapement-go/escapement/internal/misuse"
	"github.com/escapement-go/escapement/internal/queue"
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

	// Recover is what the interval is multiplied by on a success, as long as no interval is known
	// to fail. Later it shrinks in other steps, see [Adaptive]. 0 means 0.9.
	Recover float64

	// GiveUp is the number of throttled generations in a row after which all entries, waiting and
	// new, fail with [ErrGaveUp]. 0 means never. A success ends the row, unless less than an eighth of the
	// calls in it came back well.
	GiveUp int

	// Clock is where the time comes from. Nil means the real clock.
	Clock clock.Clock
}

// Adaptive is a [Rate] that slows down all callers when the far side throttles one, and then finds the way
// back to speed. Use it for an API with a limit that is not known, is shared with others or changes.
//
// # What it learns from
//
// It learns from the error that each pass is left with, so leave every pass. nil is a success. An error
// that is or wraps a *[ThrottledError], see [Throttled], is a throttle. Any other error is ignored.
//
// # Noise
//
// Some far sides throttle a share of the calls whatever the pace. Examples are a bad node behind a balancer, and an
// item that is refused each time. The gate finds out: after a throttle it is slower for a while, and if
// throttles are as frequent then, the pace is not their cause. From then on it ignores them until they become more
// frequent. It forgets that after 600 calls in a row without a throttle.
//
// A throttle that is noise may have a Retry-After, too. Then it is ignored with that. The fewer calls a
// Retry-After holds up, the more calls it takes to find that out, because to ignore a real one is dangerous.
//
// To learn that takes some throttles, each with some calls that come back well after it, and those throttles slow
// the gate down. Where more than 30 % are throttled at
// a slower pace, too, the gate goes on slowing down.
//
// # Slowing down
//
// The interval is the time from one entry to the next. A generation lasts from one increase of the interval to
// the next increase. A throttle multiplies the interval by Backoff if its entry was granted in the current
// generation. Throttles of earlier entries do not change it. So a burst of throttles slows the gate down once.
//
// When Leave with such a throttle returns, the bucket is empty. The next entry, waiting or new, is admitted one
// new interval after the last grant.
//
// # Speeding up
//
// A success counts if its entry was granted after the last change of the interval. As long as no limit has
// been met, each success multiplies the interval by Recover, down to that of the rate given.
//
// Later, the first success brings back the interval that was last known to work. The gate then tries shorter
// ones with a few entries at a time, and less often each time that fails. Package internal/adapt has the
// rules and their sources.
//
// # Retry-After
//
// A throttle with a Retry-After holds the gate for that long, whatever its generation, unless it is noise. If that is many
// intervals, a throttle is costly. The gate then takes the number of entries that succeeded before for the
// limit. It tries a little more only after 16 times that span. When the limit has moved, the gate remembers
// where it was, and tries that after 7 times the span.
//
// # Forgetting
//
// The gate forgets what it has learned, as by [Adaptive.Reset], when it has not been used for long. That is
// one hour, or 60 times Slowest if that is longer, without an entry, a throttle or a hold. While callers wait,
// the gate forgets nothing.
//
// # Costs
//
// Every entry takes a lock, for a few dozen nanoseconds, and allocates nothing. Lateness of up to 100 ms is made
// up for, as by a Rate. Make an Adaptive with [NewAdaptive]; the zero value does not work.
type Adaptive struct{ l *adaptiveLimit }

// adaptiveLimit is an Adaptive as its queue sees it. The lock of the group guards all that is not fixed.
//
// step decides the interval, and bucket keeps to it. repace passes the interval on from one to the other.
type adaptiveLimit struct {
	bucket
	single
	asked pace.Rate // fixed
	fades int64     // fixed: how long after heard all is forgotten
	step  adapt.State
	last  int64 // instant of the last grant
	more  int64 // instant of the last Settle that charged more, which counts as a grant for repace
	heard int64 // instant of the last grant or throttle; 0: there is nothing to forget
}

// NewAdaptive returns a gate that starts at the given rate and never exceeds it. Nil options mean the defaults.
//
// It panics on the zero [pace.Rate], on one that is unlimited or above one a nanosecond, and on negative
// options. It panics on a Backoff that is not above 1 or is above 1e9, and on a Recover that is not between
// 0 and 1. It panics on a Slowest that is shorter than the interval asked for.
func NewAdaptive(r pace.Rate, o *AdaptiveOptions) *Adaptive {
	if o == nil {
		o = &AdaptiveOptions{}
	}
	misuse.Options("gate: NewAdaptive", r.Valid(), o.Burst, 0)
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
	l := &adaptiveLimit{
		bucket: bucket{state: schedule.New(int64(r.Count()), int64(r.Span()), o.Burst, 0)},
		asked:  r,
		step:   adapt.New(c),
		fades:  fadesAfter(c.Slowest),
	}
	l.state.Track() // from the first entry on, because any entry may be settled
	l.init(l, timing.New(o.Clock), kind{name: "adaptive", capacity: "burst", learns: true, keeps: true})
	l.Tune(timing.Auto, l.step.Interval(), l.state.Slack())
	return &Adaptive{l}
}

// limit returns the Adaptive as its queue sees it. It panics on the zero value.
func (g *Adaptive) limit() *adaptiveLimit {
	if g.l == nil {
		panicOnZero()
	}
	return g.l
}

// Enter is described at [Gate]. A cost above the burst is a *[CapacityError]. When the gate has given up,
// the error is [ErrGaveUp].
func (g *Adaptive) Enter(ctx context.Context, cost int) (Pass, error) {
	checkEntry("Adaptive.Enter", ctx, cost)
	l := g.limit()
	if err := l.ended(ctx, cost); err != nil {
		return Pass{}, err
	}
	mark, err := l.enter(ctx, cost)
	if err != nil {
		return Pass{}, err
	}
	return l.track(g, Pass{(*adaptiveKeeper)(l), mark, cost}, cost), nil
}

// TryEnter is described at [Gate]. When the gate has given up, it refuses.
func (g *Adaptive) TryEnter(cost int) (Pass, bool) {
	checkCost("Adaptive.TryEnter", cost)
	l := g.limit()
	mark, ok := l.tryEnter(cost)
	if !ok {
		return Pass{}, false
	}
	return l.track(g, Pass{(*adaptiveKeeper)(l), mark, cost}, cost), true
}

// Interval returns the present time from one entry to the next. Use it to see what the gate has learned.
func (g *Adaptive) Interval() (d time.Duration) {
	l := g.limit()
	l.View(func(now int64) {
		l.fade(now)
		d = time.Duration(l.step.Interval())
	})
	return d
}

// Hold makes the gate admit no entry, waiting or new, until d from now. Use it when the far side asks for a
// pause. Afterwards one token is there, and the next ones come at the present interval: there is no burst.
//
// Hold never shortens a hold: if it would end earlier than the present one, it does nothing. Nor does it if d
// is not positive.
func (g *Adaptive) Hold(d time.Duration) {
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

// Resume ends a hold now, also that of a Retry-After, for all waiters at once. Use it when the far side is known
// to be back. From then on the gate is as at the end of a hold. One token is there, and the next ones come at the
// present interval. Resume does not change the interval; [Adaptive.Reset] does. Without a hold it does nothing.
func (g *Adaptive) Resume() {
	l, held := g.limit(), false
	l.Change(func(now int64) queue.Effect {
		held = l.resume(now)
		return queue.Sooner
	})
	l.resumed(held)
}

// Reset makes the gate forget what it has learned. It goes on at the rate that it was made with, even if it had
// given up. A hold stays; [Adaptive.Resume] ends it.
func (g *Adaptive) Reset() {
	l := g.limit()
	l.Change(func(now int64) queue.Effect {
		l.forget(now)
		return queue.Later
	})
	l.replanned()
}

// Stats returns the statistics of the gate at this instant. It is not Idle while its interval is longer than
// the one asked for, or while it remembers a limit. Nor is it while a throttle counts towards GiveUp.
func (g *Adaptive) Stats() Stats { return g.limit().Stats() }

func (l *adaptiveLimit) Stats() (s Stats) {
	l.View(func(now int64) {
		l.fade(now)
		s = l.stats(now, l.state.Held())
		s.Forfeited = l.state.Forfeited()
		s.Left, _ = l.present(now)
		s.Idle = l.state.Full(now) && l.step.Fresh() && s.Waiting == 0
		if l.step.GaveUp() {
			s.NextDue = 0 // when it admits an entry again is not known
		}
	})
	return s
}

// repace makes the schedule keep to the interval. At the rate asked for, the schedule has the exact ratio: the
// interval is rounded to nanoseconds.
func (l *adaptiveLimit) repace(now int64) {
	n, span := int64(1), l.step.Interval()
	if span == int64(l.asked.Interval()) {
		n, span = int64(l.asked.Count()), int64(l.asked.Span())
	}
	l.state.Repace(now, max(l.last, l.more), n, span)
	l.planned(now)
	l.Tune(timing.Auto, l.step.Interval(), l.state.Slack())
}

func (l *adaptiveLimit) describe() string { return fmt.Sprintf("an Adaptive of %v", l.asked) }

func (g *Adaptive) member() member { return g.limit() }
func (g *Adaptive) part() part     { return g.limit() }

// Capacity also lets what was learned fade: the queue calls it for every entry before anything else. A gate
// that has given up has a capacity of 0, which single.failed turns into ErrGaveUp.
func (l *adaptiveLimit) Capacity() int {
	l.fade(l.Now())
	if l.step.GaveUp() {
		return 0
	}
	return l.bucket.Capacity()
}

// Take returns the mark of step. Its high bits have the number of the last change of the interval, and its low
// 32 bits the number of the entry.
func (l *adaptiveLimit) Take(now, since int64, cost int) (mark uint64) {
	l.state.Take(now, since, cost)
	l.last, l.heard = now, now
	return l.step.Grant(now)
}

// Settle turns the mark into that of the bucket, by the number of the entry in it. So does Undo.
func (l *adaptiveLimit) Settle(now int64, mark uint64, cost, actual int) queue.Effect {
	l.fade(now)
	if actual >= cost {
		l.more = now
	}
	return l.bucket.Settle(now, l.state.Numbered(uint32(mark)), cost, actual)
}

func (l *adaptiveLimit) Undo(now int64, mark uint64, cost int) queue.Effect {
	l.fade(now)
	return l.bucket.Undo(now, l.state.Numbered(uint32(mark)), cost)
}

// leave learns from the error of the work. For an error that is no throttle it takes no lock.
func (l *adaptiveLimit) leave(c queue.Claim, err error) (mark uint64) {
	t := throttleOf(err)
	if err != nil && t == nil {
		return c.Mark
	}
	var paced, longer bool
	l.Change(func(now int64) (e queue.Effect) {
		interval, held, up := l.step.Interval(), l.state.Held(), l.step.GaveUp()
		if t == nil {
			e = l.succeeded(now, c.Mark)
		} else {
			l.throttled(now, c.Mark, t.After)
			e = queue.Later
		}
		paced = l.step.Interval() != interval || l.step.GaveUp() != up
		longer = l.state.Held() != held
		return e
	})
	if t != nil {
		l.throttledBy(c.Cost, err)
		l.heldFor(longer, t.After)
	}
	if paced {
		l.replanned()
	}
	return c.Mark
}

// succeeded reports a success to step. That can make the interval longer, too: after a probe, the gate goes
// back to the interval that is known to work.
func (l *adaptiveLimit) succeeded(now int64, mark uint64) queue.Effect {
	before := l.step.Interval()
	if !l.step.Success(mark) {
		return queue.None
	}
	l.repace(now)
	if l.step.Interval() > before {
		return queue.Later
	}
	return queue.Sooner
}

// throttled reports a throttle to step. If that changes the interval, the bucket is emptied: the next entry is
// due one new interval after the last grant. after holds all entries, whether or not the interval has changed. A
// throttle that is noise does nothing.
func (l *adaptiveLimit) throttled(now int64, mark uint64, after time.Duration) {
	l.fade(now)
	l.heard = now
	changed, counts := l.step.Throttle(mark, int64(after))
	if changed {
		l.repace(now)
		l.state.Spend(now, timing.Later(l.last, time.Duration(l.step.Interval())))
	}
	if counts && after > 0 {
		l.state.Hold(now, timing.Later(now, after))
	}
}

// adaptiveKeeper is the Adaptive that a pass goes back to. It is a type of its own so that Leave and Settle
// are not methods of the limit.
type adaptiveKeeper adaptiveLimit

func (k *adaptiveKeeper) Leave(mark uint64, cost int, err error) {
	(*adaptiveLimit)(k).leave(queue.Claim{Cost: cost, Mark: mark}, err)
}
func (k *adaptiveKeeper) Settle(mark uint64, cost, actual int) {
	(*adaptiveLimit)(k).settle(mark, cost, actual)
}
