package gate

import (
	"math"
	"time"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
)

// hold is the limit of a composite that its Hold sets. Entries that come through the composite take it,
// also by way of another composite that has this one as a member. No other entries do. So a hold keeps
// those entries out, and is in no other entry's way at the members that are shared.
//
// A hold of a Rate empties its bucket, so that there is no burst when it is over. The hold of a composite
// can't do that: others use the tokens meanwhile. It has a bucket of its own instead, with the plan of the
// slowest member's, which the hold empties. The others' buckets would be at least as full, so this one is
// enough. When it is full again, the hold is past, and costs its entries nothing more.
//
// Its methods are called under the lock, but for leave, restsAt and Stats, which take it.
type hold struct {
	single
	bucket
	of     []bucketed // members that go by a schedule
	active bool       // the hold, or what came of it, is not past; follow clears it
}

// init makes a limit that holds nothing. Its rate is unlimited until a hold takes over the plan of a
// member.
func (h *hold) init(clk *timing.Clock) {
	h.Queue.Init(h, clk, true)
	h.state = schedule.New(0, 0, 0, 0)
}

// begin begins a hold, or makes it longer. It never makes it shorter: that is for the schedule to see.
func (h *hold) begin(now, until int64) {
	if !h.follow(now) {
		h.active = true
		for _, m := range h.of {
			m.watch(h)
		}
	}
	h.plan(now)
	h.state.Hold(now, until)
}

// plan brings the bucket in line with the plan of the slowest member, which may have changed.
func (h *hold) plan(now int64) {
	if s := h.slowest(); s != nil {
		h.state.Follow(now, s)
	}
}

// follow is plan while the hold, or what came of it, matters, and reports whether it still does.
func (h *hold) follow(now int64) bool {
	if !h.active {
		return false
	}
	h.plan(now)
	if !h.state.Full(now) {
		return true
	}
	h.active = false
	h.state.Fill(now)
	for _, m := range h.of {
		m.unwatch(h)
	}
	return false
}

// slowest returns the schedule of the member with the longest interval, or nil if none has a schedule.
func (h *hold) slowest() *schedule.Schedule {
	var slowest *schedule.Schedule
	for _, m := range h.of {
		if s := m.schedule(); slowest == nil || slowest.Faster(s) {
			slowest = s
		}
	}
	return slowest
}

// The members bound the cost. A hold admits any.
func (h *hold) Capacity() int { return math.MaxInt }

func (h *hold) Due(now, since int64, ahead uint64, cost int) int64 {
	if !h.follow(now) {
		return since
	}
	return h.state.Due(since, ahead, cost)
}

// Take returns 0 where there is no hold. Then the entry is not charged, and Settle and Undo find nothing to
// do.
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

func (h *hold) leave(queue.Claim, error) {}

// clock takes the lock: a hold may get its clock late.
func (h *hold) clock() (clk *timing.Clock) {
	h.View(func(int64) { clk = h.Clock() })
	return clk
}

// restsAt returns the instant from which the hold, and what came of it, is past: its bucket is full.
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
	})
	return s
}

// Hold admits no entry through the composite, waiting or new, until d from now. See [All].
func (a *Composite) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	// All holds that an entry passes go by one clock: that of the members, or the real one if none has a
	// clock. A call of its own sets it: the second call reads an instant from it.
	h := &a.hold
	clk := h.set.Clock()
	if clk == nil {
		clk = timing.New(nil)
	}
	h.Change(func(int64) queue.Effect {
		for _, o := range a.holds {
			if o.Clock() == nil {
				o.SetClock(clk)
			}
		}
		return queue.None
	})
	h.Change(func(now int64) queue.Effect {
		h.begin(now, timing.Later(now, d))
		return queue.Later
	})
}
