package gate

import (
	"math"
	"time"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
)

// hold is the limit by which Composite.Hold keeps entries out. Entries that come through the composite want
// it, also by way of another composite that has this one as a member. No other entries want it. So it is in no
// other entry's way at shared members.
//
// When the hold of a Rate ends, its bucket is empty, so that there is no burst. The hold of a composite can't
// empty the buckets of members: other entries use their tokens. So a composite has a hold for each member that
// keeps to a schedule. That hold has a bucket of its own, with the member's plan, and Hold empties it. One more
// hold, without a member, keeps out entries that pass all of these by. Resume ends all of them, but not those of
// composites that are members: these hold other entries, too.
//
// When its bucket is full again, the hold is past, and entries bypass it.
//
// Its methods are called under the lock, except clock, restsAt and Stats, which take it.
type hold struct {
	single
	bucket
	of     bucketed   // the member; nil: the hold has no bucket to empty
	active bool       // the hold is not past; follow clears it
	share  *holdClock // shared by the holds of a composite; guarded by the lock

	by *Composite // the one that is held
}

// holdClock is the clock of all holds that have a composite in common, directly or through other holds. An entry of
// that composite waits for all of them, so they go by one clock, although each gets it when it is first needed.
type holdClock struct {
	clk    *timing.Clock // nil: they have none yet
	into   *holdClock    // the one that this was merged into, or nil
	number uint64        // fixed: younger ones are merged into older ones, so that no chain of them grows
}

// shared returns the holdClock of the hold. The lock is held.
func (h *hold) shared() *holdClock {
	for h.share.into != nil {
		h.share = h.share.into
	}
	return h.share
}

// init makes a limit that holds nothing.
func (h *hold) init(clk *timing.Clock, of bucketed, share *holdClock) {
	h.of, h.share = of, share
	h.Queue.Init(h, clk, true)
	h.counts = &counts{number: h.Number()}
	h.what.name = "all"
	h.Bypass(true)
	h.state = schedule.New(0, 0, 0, 0)
}

// begin begins a hold, or makes it longer. The schedule sees to it that a hold is never made shorter.
func (h *hold) begin(now, until int64) {
	if !h.follow(now) {
		h.active = true
		h.Bypass(false)
		if h.of != nil {
			h.of.watch(h)
		}
	}
	h.plan(now)
	h.state.Hold(now, until)
}

// resume ends a hold that is on. Its bucket stays active until it is full, so that there is no burst.
func (h *hold) resume(now int64) {
	if h.follow(now) {
		h.state.Resume(now)
	}
}

// plan copies the plan of the member, which may have changed, to the bucket.
func (h *hold) plan(now int64) {
	if h.of != nil {
		h.state.Follow(now, h.of.schedule())
	}
}

// follow copies the member's plan and ends the hold if it is past. It reports whether the hold is active.
func (h *hold) follow(now int64) bool {
	if !h.active {
		return false
	}
	if !h.state.Full(now) { // under the plan so far: a hold that is past is not taken up again by another one
		if h.plan(now); !h.state.Full(now) {
			return true
		}
	}
	h.active = false
	h.Bypass(true)
	h.state.Fill(now)
	if h.of != nil {
		h.of.unwatch(h)
	}
	return false
}

// The members bound the cost. A hold admits any.
func (h *hold) Capacity() int { return math.MaxInt }

func (h *hold) Due(now, since int64, ahead uint64, cost int) int64 {
	if !h.follow(now) {
		return since
	}
	return h.state.Due(since, ahead, cost)
}

// Take returns 0 if the hold is past. Then the entry is not charged, and Settle and Undo do nothing.
func (h *hold) Take(now, since int64, cost int) (mark uint64) {
	if !h.follow(now) {
		return 0
	}
	h.state.Track() // Settle and Undo need an account of entries
	return h.state.Take(now, since, cost)
}

func (h *hold) Settle(now int64, mark uint64, cost, actual int) queue.Effect {
	if mark == 0 || !h.follow(now) {
		return queue.None // it was admitted before the hold, or the hold is past
	}
	return h.bucket.Settle(now, mark, cost, actual)
}

func (h *hold) Undo(now int64, mark uint64, cost int) queue.Effect {
	if mark == 0 || !h.follow(now) {
		return queue.None
	}
	return h.bucket.Undo(now, mark, cost)
}

func (h *hold) Arrive(now int64) int64 {
	if !h.active {
		return now
	}
	return h.bucket.Arrive(now)
}

// clock takes the lock: a hold may get its clock late.
func (h *hold) clock() (clk *timing.Clock) {
	h.View(func(int64) { clk = h.shared().clk })
	return clk
}

// restsAt returns the instant from which the hold is past: its bucket is full.
func (h *hold) restsAt(int64) (at int64) {
	h.View(func(now int64) {
		if at = now; h.follow(now) {
			at = h.state.Due(now, 0, h.state.Burst())
		}
		at = h.resting(now, at)
	})
	return at
}

// Stats are those of the hold alone. A composite joins them with those of its members.
func (h *hold) Stats() (s Stats) {
	h.View(func(now int64) {
		active := h.follow(now)
		s = h.stats(now, h.state.Held())
		s.Idle = !active && s.Waiting == 0
		s.Left, _ = h.present(now)
	})
	return s
}

// Hold makes the composite admit no entry, waiting or new, until d from now. Use it when the far side asks for
// a pause. It keeps out no entry that comes to a member in another way; see Holds at [All].
//
// Hold never shortens a hold. It does nothing if d is not positive.
//
// A composite of Concurrency gates alone has no clock. It gets that of the first All that names it beside a gate
// with a clock. If it is held before, it gets the clock of the [Keyed] that it belongs to, or else the real one. All
// composites that are members of one All have one clock, also if they get it later.
func (a *Composite) Hold(d time.Duration) { a.holdBy(nil, d) }

// holdBy is Hold for the function holdBy.
func (a *Composite) holdBy(clk *timing.Clock, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	switch {
	case len(a.keys) > 0:
		clk = a.keys[0].to.clock(nil)
	case clk == nil:
		clk = timing.New(nil)
	}
	h := &a.hold
	// A first Change sets the clock, because the second one reads the present instant from it.
	h.Change(func(int64) queue.Effect {
		a.goBy(clk)
		return queue.None
	})
	longer := false
	h.Change(func(now int64) queue.Effect {
		until := timing.Later(now, d)
		longer = !h.active || until > h.state.Held()
		for _, o := range a.holds[:a.own] {
			o.to.begin(now, until)
		}
		return queue.Later
	})
	a.hold.heldFor(longer, d)
	return true
}

// goBy gives a clock to the holds that have none yet: the one that they share, or clk if there is none. A nil clk is no
// clock. goBy returns the clock that the holds have now. The lock is held.
func (a *Composite) goBy(clk *timing.Clock) *timing.Clock {
	d := a.hold.shared()
	if d.clk == nil {
		d.clk = clk
	}
	for _, h := range a.holds {
		if d.clk != nil && h.to.Clock() == nil {
			h.to.SetClock(d.clk)
		}
	}
	return d.clk
}

// shareClock makes all holds go by one clock: clk, or the one that some of them have. It panics if there are two. The
// lock is held.
func (a *Composite) shareClock(clk *timing.Clock) {
	for _, h := range a.holds {
		clk = one(clk, h.to.shared().clk)
	}
	oldest := a.hold.shared()
	for _, h := range a.holds {
		if o := h.to.shared(); o.number < oldest.number {
			oldest = o
		}
	}
	for _, h := range a.holds {
		if o := h.to.shared(); o != oldest {
			o.into = oldest
		}
	}
	a.goBy(clk)
}

// Resume ends the hold that [Composite.Hold] has begun, now and for all waiters at once. Use it when the far side
// is known to be back. From then on the entries of the composite find their members as at the end of a hold. A
// Rate or an Adaptive has one token for them, and the next ones come at its pace. Without a hold Resume does
// nothing.
//
// It ends no other hold. The hold of a member goes on, also that of a composite that is a member. An entry that
// comes through several composites waits until the hold of each of them has ended.
func (a *Composite) Resume() {
	if a.holds == nil {
		panicOnZero()
	}
	held := false
	a.hold.Change(func(now int64) queue.Effect {
		held = a.hold.active && a.hold.state.Held() > now
		for _, o := range a.holds[:a.own] {
			o.to.resume(now)
		}
		return queue.Sooner
	})
	a.hold.resumed(held)
}
