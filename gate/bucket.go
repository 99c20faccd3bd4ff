package gate

import (
	"slices"
	"sort"
	"time"

	"github.com/escapement-go/escapement/internal/queue"
	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
)

// bucket is a limit that keeps to a schedule, and makes up for lateness. A Rate, an Adaptive and the hold of
// a composite embed it, and replace the methods in which they differ.
//
// It implements queue.Limit and queue.Lateness. The queue calls the methods under its lock.
type bucket struct {
	state   schedule.Schedule
	watches []*hold // holds that copy its plan
}

func (b *bucket) Capacity() int { return b.state.Limit() }

func (b *bucket) Due(_, since int64, ahead uint64, cost int) int64 {
	return b.state.Due(since, ahead, cost)
}

func (b *bucket) Take(now, since int64, cost int) (mark uint64) {
	return b.state.Take(now, since, cost)
}

// Settle and Undo return Later even if tokens come back. Both end the making up for lateness until now. So an
// entry that counted from an earlier instant may be due later.
func (b *bucket) Settle(now int64, mark uint64, cost, actual int) queue.Effect {
	if !b.state.Once(mark) {
		panic(settledTwice)
	}
	b.state.Settle(now, mark, cost, actual)
	return queue.Later
}

func (b *bucket) Undo(now int64, mark uint64, cost int) queue.Effect {
	b.state.Undo(now, mark, cost)
	return queue.Later
}

// Arrive, Absent and Ran are described at queue.Lateness. Admitted callers that are not running yet use up
// slack before new entries do.
func (b *bucket) Arrive(now int64) int64       { return b.state.Arrive(now) }
func (b *bucket) Absent(now int64, out uint64) { b.state.Absent(now, out) }
func (b *bucket) Ran(now, granted int64)       { b.state.Ran(now, granted) }

// bucketed is a member that keeps to a schedule. The hold of a composite needs the schedules of its members.
type bucketed interface {
	member
	schedule() *schedule.Schedule
	watch(h *hold)
	unwatch(h *hold)
}

// hold holds the bucket, and reports whether the hold is now longer than it was.
func (b *bucket) hold(now int64, d time.Duration) (longer bool) {
	until := timing.Later(now, d)
	longer = until > b.state.Held()
	b.state.Hold(now, until)
	return longer
}

// resume ends a hold, and reports whether there was one.
func (b *bucket) resume(now int64) (held bool) {
	held = b.state.Held() > now
	b.state.Resume(now)
	return held
}

// left returns the highest cost that the schedule would admit at now.
func left(s *schedule.Schedule, now int64) int {
	since := s.Arrive(now)
	if s.Due(since, 0, 1) > now {
		return 0
	}
	return sort.Search(s.Limit(), func(n int) bool { return s.Due(since, 0, n+1) > now })
}

func (b *bucket) schedule() *schedule.Schedule { return &b.state }
func (b *bucket) watch(h *hold)                { b.watches = append(b.watches, h) }
func (b *bucket) unwatch(h *hold) {
	b.watches = slices.DeleteFunc(b.watches, func(w *hold) bool { return w == h })
}

// planned tells the holds that the plan has changed now.
func (b *bucket) planned(now int64) {
	for i := len(b.watches) - 1; i >= 0; i-- {
		b.watches[i].follow(now) // calls unwatch, if the hold is past
	}
}
