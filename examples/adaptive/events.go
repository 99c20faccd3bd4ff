package main

import "time"

// events is a queue of them, the first to come at the front. Of two at one instant, the one pushed first comes
// first. It is a heap of places in a list, because events are large.
type events struct {
	heap   []place
	list   []event
	free   []int // places of the list
	pushed int
}

// place says where an event is in the list, and when it comes.
type place struct {
	at           time.Duration
	order, index int
}

func (p place) before(o place) bool { return p.at < o.at || p.at == o.at && p.order < o.order }

func (q *events) empty() bool          { return len(q.heap) == 0 }
func (q *events) first() time.Duration { return q.heap[0].at }

func (q *events) push(e event, at time.Duration) {
	q.pushed++
	p := place{at, q.pushed, len(q.list)}
	if n := len(q.free); n > 0 {
		p.index, q.free = q.free[n-1], q.free[:n-1]
		q.list[p.index] = e
	} else {
		q.list = append(q.list, e)
	}
	q.heap = append(q.heap, p)
	i := len(q.heap) - 1
	for i > 0 && p.before(q.heap[(i-1)/2]) {
		q.heap[i] = q.heap[(i-1)/2]
		i = (i - 1) / 2
	}
	q.heap[i] = p
}

func (q *events) pop() (e event, at time.Duration) {
	top, last := q.heap[0], q.heap[len(q.heap)-1]
	q.heap = q.heap[:len(q.heap)-1]
	for i, n := 0, len(q.heap); n > 0; {
		child := 2*i + 1
		if child+1 < n && q.heap[child+1].before(q.heap[child]) {
			child++
		}
		if child >= n || !q.heap[child].before(last) {
			q.heap[i] = last
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	q.free = append(q.free, top.index)
	return q.list[top.index], top.at
}
