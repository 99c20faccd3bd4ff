package group

import "sync"

// order lets several workers take items from one channel and send the results to another in the
// order of the items.
//
// Each item gets a number when it is taken, and a slot of a ring for its results. One worker
// finishes the item that must go out next. It sends that item's results, and those of the following
// items that are finished, up to the first that is not. The other workers leave their results in
// the ring and go on. So there is no goroutine in between, and an item costs two uses of a lock.
//
// Nothing blocks while the lock is held. A worker that can't take an item waits in parked. Only one
// worker at a time waits for an item, and only one for a reader, both without the lock.
type order[B any] struct {
	fl  *flow
	out chan<- B

	mu        sync.Mutex // guards what follows
	slots     []slot[B]  // of the items from head to next, of which there are at most len(slots)
	head      uint64     // number of the item that goes out next
	next      uint64     // number of the item that is taken next
	receiving bool       // a worker waits for an item. No other may take one: that worker is first
	sending   bool       // a worker sends results
	over      bool       // no more items come
	parked    []*waiter  // workers that wait to take an item
	waking    int        // how many of them were woken and have not run yet

	ahead  int       // results in the ring, where an item can have several
	most   int       // the largest ahead
	queued []*waiter // workers that wait to put a result into the ring
}

// slot has the results of one item.
type slot[B any] struct {
	results  []B
	sent     int // how many of them were sent
	finished bool
}

// waiter is where one worker waits.
type waiter struct {
	wake chan struct{} // of capacity 1; the goroutine that takes the waiter off a list sends
}

func newWaiter() *waiter { return &waiter{wake: make(chan struct{}, 1)} }

// notify never blocks. Two notifications become one if the first was not received yet. That happens
// only after the group has ended, when a worker has left without receiving.
func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// await waits for notify. It returns false if the group ended first.
func (w *waiter) await(fl *flow) bool {
	select {
	case <-w.wake:
		return true
	case <-fl.done:
		return !fl.ended()
	}
}

// spare is how many results a slot keeps room for when it is used again. A Map needs one to
// allocate nothing. Many slots with much room would be a waste.
const spare = 8

func newOrder[B any](fl *flow, out chan<- B, s *Stage) *order[B] {
	o := &order[B]{fl: fl, out: out, slots: make([]slot[B], s.Workers+s.Buffer), most: s.Buffer}
	fl.full = o.full
	return o
}

// take waits for the next item of in, and for look-ahead. It returns false at the end of in
// or of the group. c and w belong to the worker.
func take[A, B any](o *order[B], in <-chan A, c *cell, w *waiter) (seq uint64, a A, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.receiving || o.fullLocked() {
		if o.over {
			return 0, a, false
		}
		c.set(parked)
		o.parked = append(o.parked, w)
		o.mu.Unlock()
		ok := w.await(o.fl)
		o.mu.Lock()
		if !ok {
			return 0, a, false
		}
		o.waking--
		c.set(idle)
	}
	if o.over {
		return 0, a, false
	}
	select {
	case a, ok = <-in:
	default:
		o.receiving = true
		o.mu.Unlock()
		a, ok = receive(o.fl, in)
		o.mu.Lock()
		o.receiving = false
	}
	if !ok {
		o.fl.ended() // a stage before may have closed in because the group ended
		o.endLocked()
		return 0, a, false
	}
	seq = o.next
	o.next++
	o.wakeLocked()
	return seq, a, true
}

// fullLocked reports whether the look-ahead is used up.
func (o *order[B]) fullLocked() bool { return o.next-o.head == uint64(len(o.slots)) }

func (o *order[B]) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fullLocked()
}

// endLocked records that no more items come.
func (o *order[B]) endLocked() {
	o.over = true
	for _, w := range o.parked {
		o.waking++
		w.notify()
	}
	o.parked = nil
}

// wakeLocked wakes one of the parked workers, if there may be an item for it. That worker wakes the
// next one. If all were woken at once, they would contend for the lock.
func (o *order[B]) wakeLocked() {
	if o.waking > 0 || o.receiving || len(o.parked) == 0 || o.fullLocked() {
		return
	}
	last := len(o.parked) - 1
	w := o.parked[last]
	o.parked[last] = nil
	o.parked = o.parked[:last]
	o.waking++
	w.notify()
}

// add adds a result of an item that is not finished. If there are too many in the ring it waits
// until it is the item's turn. It returns false if the group has ended.
func (o *order[B]) add(c *cell, w *waiter, seq uint64, b B) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.ahead >= o.most && (seq != o.head || o.sending) {
		c.set(blocked)
		o.queued = append(o.queued, w)
		o.mu.Unlock()
		ok := w.await(o.fl)
		o.mu.Lock()
		if !ok {
			return false
		}
	}
	o.ahead++
	s := &o.slots[seq%uint64(len(o.slots))]
	s.results = append(s.results, b)
	return seq != o.head || o.flushLocked(c, true)
}

// tryAdd is add without any waiting. It returns false, and has not added b, if there is no room for
// it.
func (o *order[B]) tryAdd(c *cell, seq uint64, b B) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &o.slots[seq%uint64(len(o.slots))]
	if seq == o.head && !o.sending {
		o.flushLocked(c, false)
		if len(s.results) == 0 && trySend(c, o.out, b) {
			return true
		}
	}
	if o.ahead >= o.most {
		return false
	}
	o.ahead++
	s.results = append(s.results, b)
	return true
}

// finish ends an item after all of its results were added. It returns false if the group has ended.
func (o *order[B]) finish(c *cell, seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots[seq%uint64(len(o.slots))].finished = true
	c.set(idle)
	return o.flushLocked(c, true)
}

// wakeQueuedLocked wakes the workers that wait to add a result.
func (o *order[B]) wakeQueuedLocked() {
	for i, w := range o.queued {
		w.notify()
		o.queued[i] = nil
	}
	o.queued = o.queued[:0]
}

// put finishes an item with at most one result. It returns false if the group has ended.
func (o *order[B]) put(c *cell, seq uint64, b B, keep bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &o.slots[seq%uint64(len(o.slots))]
	if keep {
		o.ahead++
		s.results = append(s.results, b)
	}
	s.finished = true
	c.set(idle)
	return o.flushLocked(c, true)
}

// flushLocked sends what can be sent, unless another worker is sending. With mayWait it waits for
// room, without the lock, and returns false if the group has ended. Otherwise it stops where there
// is no room, and the caller goes on later.
func (o *order[B]) flushLocked(c *cell, mayWait bool) bool {
	if o.sending {
		return true
	}
	o.sending = true
	for o.head != o.next {
		s := &o.slots[o.head%uint64(len(o.slots))]
		for s.sent < len(s.results) {
			if b := s.results[s.sent]; !trySend(c, o.out, b) {
				if !mayWait {
					o.sending = false
					o.wakeQueuedLocked()
					return true
				}
				o.mu.Unlock()
				ok := sendSlowly(o.fl, c, o.out, b)
				o.mu.Lock()
				if !ok {
					return false
				}
			}
			var none B
			s.results[s.sent] = none
			s.sent++
			o.ahead--
			o.wakeQueuedLocked()
		}
		// Even if the item has more to come: it may have a million.
		if cap(s.results) > spare {
			s.results = nil
		}
		s.results, s.sent = s.results[:0], 0
		if !s.finished {
			break
		}
		s.finished = false
		o.head++
		o.wakeLocked()
	}
	o.sending = false
	o.wakeQueuedLocked()
	return true
}
