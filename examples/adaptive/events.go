package main

import "time"

// events is a heap of them, the first to come on top. Of two at one instant, the one pushed first comes first.
type events struct {
	heap   []event
	pushed int
}

func (q *events) empty() bool   { return len(q.heap) == 0 }
func (q *events) first() *event { return &q.heap[0] }

func (q *events) less(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (q *events) push(e event, at time.Duration) {
	q.pushed++
	e.at, e.order = at, q.pushed
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *events) pop() event {
	top, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && q.less(child+1, child) {
			child++
		}
		if !q.less(child, i) {
			return top
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}
