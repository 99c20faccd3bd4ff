package queue

import (
	"container/heap"

	"github.com/escapement-go/escapement/internal/timing"
)

// agenda has the queues of one clock with a first head that is due at a known instant, the soonest one first.
//
// Alarms that ring at one instant ring in any order, and each may be late. So before a head is admitted, all heads
// that are due by then are looked at too, in order of arrival. Otherwise the order of their alarms would decide
// which of them gets what they share. The agenda finds them without a look at all queues of the group.
type agenda struct {
	clk    *timing.Clock
	queues dueHeap
}

// plan puts q on the agenda of its clock, or takes it off if it is not known when its first head is due.
func (g *Group) plan(q *Queue) {
	on := q.alarm != nil && q.due > 0 && q.due != Never
	if !on && q.planned == 0 {
		return
	}
	a := g.agenda(q.clk)
	switch {
	case !on:
		heap.Remove(&a.queues, q.planned-1)
	case q.planned == 0:
		heap.Push(&a.queues, q)
	case len(a.queues) > 1:
		heap.Fix(&a.queues, q.planned-1)
	}
}

// agenda returns the agenda of a clock. Limits with different clocks can be in one group, by way of a limit without
// one.
func (g *Group) agenda(clk *timing.Clock) *agenda {
	for i := range g.agendas {
		if a := &g.agendas[i]; a.clk == clk || a.clk.Same(clk) {
			return a
		}
	}
	g.agendas = append(g.agendas, agenda{clk: clk})
	return &g.agendas[len(g.agendas)-1]
}

// markDue marks all queues with a head that is due, and reports whether there are any. now is what clk has shown just
// now; a nil clk is no clock. A queue comes back to the agenda when it was looked at.
func (g *Group) markDue(clk *timing.Clock, now int64) (some bool) {
	for i := range g.agendas {
		a := &g.agendas[i]
		if len(a.queues) == 0 {
			continue
		}
		at := now
		if a.clk != clk {
			at = a.clk.Now()
		}
		for len(a.queues) > 0 && a.queues[0].due <= at {
			g.mark(heap.Pop(&a.queues).(*Queue))
			some = true
		}
	}
	return some
}

// adopt takes over the agendas of a group that is merged into g.
func (g *Group) adopt(o *Group) {
	for _, a := range o.agendas {
		for _, q := range a.queues {
			q.planned = 0
			g.plan(q)
		}
	}
	o.agendas = nil
}

// dueHeap is a heap of queues by the instant at which their first head is due.
type dueHeap []*Queue

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].planned, h[j].planned = i+1, j+1
}
func (h *dueHeap) Push(x any) {
	q := x.(*Queue)
	*h = append(*h, q)
	q.planned = len(*h)
}
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	q.planned = 0
	return q
}
