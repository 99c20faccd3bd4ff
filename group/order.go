package group

import "sync"

// order lets several workers take items from one channel and send what they make of them
// to another in the order of the items.
//
// Each item gets a number when it is taken, and a slot of a ring for its results. Whoever
// finishes the item that is to go out next sends its results, and those of the items after
// it that are finished, until there is one that is not; the others leave theirs in the ring
// and go on. So there is no goroutine in between, and an item costs two uses of a lock.
//
// Nobody waits while holding the lock: whoever can't take an item waits in parked, whoever
// waits for an item or for a reader does so as the only one who may, and without the lock.
type order[B any] struct {
	fl  *flow
	out chan<- B

	mu        sync.Mutex // guards what follows
	slots     []slot[B]  // of the items from head to next, which are at most len(slots)
	head      uint64     // number of the item that goes out next
	next      uint64     // number of the item that is taken next
	receiving bool       // somebody waits for an item. Nobody else may take one: it comes first
	sending   bool       // somebody sends results
	over      bool       // no more items come
	parked    []*place   // who waits to take an item
	waking    int        // how many of them were woken and have not looked yet

	ahead  int      // results in the ring, where there can be several for an item
	most   int      // what ahead may be
	queued []*place // who waits to put a result there
}

// slot has the results of one item.
type slot[B any] struct {
	results  []B
	sent     int // how many of them have gone out
	finished bool
}

// place is where a worker waits.
type place struct {
	wake chan struct{} // of capacity 1; who takes the place off a list sends
}

func newPlace() *place { return &place{wake: make(chan struct{}, 1)} }

// notify never waits: a place that has not heard yet hears once. That happens only when
// the group has ended, and somebody has left its place without looking.
func (w *place) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// await returns false if the group ended first.
func (w *place) await(fl *flow) bool {
	select {
	case <-w.wake:
		return true
	case <-fl.done:
		return !fl.ended()
	}
}

// spare is how many results a slot keeps room for when it is used again. One is what it
// takes to allocate nothing in a Map; many slots with much room are a waste.
const spare = 8

func newOrder[B any](fl *flow, out chan<- B, s *Stage) *order[B] {
	o := &order[B]{fl: fl, out: out, slots: make([]slot[B], s.Workers+s.Buffer), most: s.Buffer}
	fl.full = o.full
	return o
}

// take waits for the next item of in, and for look-ahead. It returns false at the end of in
// or of the group. c and w belong to the worker.
func take[A, B any](o *order[B], in <-chan A, c *cell, w *place) (seq uint64, a A, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.receiving || o.fullLocked() {
		if o.over {
			return 0, a, false
		}
		c.set(behind)
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
		o.fl.ended() // that may be why in was closed
		o.endLocked()
		return 0, a, false
	}
	seq = o.next
	o.next++
	o.wakeLocked()
	return seq, a, true
}

// fullLocked tells whether the look-ahead is used up.
func (o *order[B]) fullLocked() bool { return o.next-o.head == uint64(len(o.slots)) }

func (o *order[B]) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fullLocked()
}

// endLocked notes that no more items come.
func (o *order[B]) endLocked() {
	o.over = true
	for _, w := range o.parked {
		o.waking++
		w.notify()
	}
	o.parked = nil
}

// wakeLocked has one of those who wait take an item, if there can be one. He will wake the
// next one: to wake all would have them run into each other.
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

// add adds a result of an item that is not finished. If there are too many in the ring it
// waits until it is the item's turn. It returns false if the group has ended.
func (o *order[B]) add(c *cell, w *place, seq uint64, b B) bool {
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

// tryAdd is add without any waiting. It returns false if there is no room for b, and has not
// added it then.
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

// finish ends an item whose results were added. It returns false if the group has ended.
func (o *order[B]) finish(c *cell, seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots[seq%uint64(len(o.slots))].finished = true
	c.set(idle)
	return o.flushLocked(c, true)
}

// wakeQueuedLocked has those who wait to add a result look again.
func (o *order[B]) wakeQueuedLocked() {
	for i, w := range o.queued {
		w.notify()
		o.queued[i] = nil
	}
	o.queued = o.queued[:0]
}

// put finishes an item that came to at most one result. It returns false if the group has
// ended.
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

// flushLocked sends what can be sent, unless another worker does. If it may wait for room it
// unlocks the lock meanwhile, and returns false if the group has ended. If not it stops where
// there is none, and the caller goes on later.
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
		// Also where more are to come: one item may have a million.
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
