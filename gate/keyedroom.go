package gate

import (
	"container/heap"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

const (
	batch   = 32  // looks at keys without letting go of the lock
	tries   = 256 // looks of a caller who must not wait
	chances = 8   // keys in a batch that are spared for having been used
)

// room is what a Keyed remembers of its keys, and how it finds one that can be forgotten.
//
// Each key has an instant, due, before which it certainly can't be forgotten. The keys are in a heap
// by it, so a key to forget is at the top or nowhere. Using a key can only make its true instant
// later, so uses don't touch the heap: a key that is due and yet busy gets a later instant when it
// is looked at. What makes the true one earlier, the end of the last use or tokens given back, is
// told by a list that takes no lock.
type room[K comparable] struct {
	keyed *Keyed[K]
	told  atomic.Pointer[keyGate[K]] // list, by next, of keys that may be idle sooner than they were due

	mu      sync.Mutex    // guards all below; the locks of gates may be taken under it, but it not under theirs
	heard   *keyGate[K]   // list of those told, yet to be looked at
	line    []*keyGate[K] // all keys
	queue   keyQueue[K]   // all keys, by due
	alarm   *timing.Alarm // for Idle
	ringing bool          // ring is under way, though it may have let go of mu
}

// add remembers a key. mu is held.
func (r *room[K]) add(e *keyGate[K], now int64) {
	e.last, e.due = now, now
	e.gone.Store(now)
	r.keyed.keys.Store(e.key, e)
	e.at = len(r.line)
	r.line = append(r.line, e)
	heap.Push(&r.queue, e)
	if len(r.line) == 1 && !r.ringing {
		r.alarm.Set(now, timing.Later(now, time.Duration(r.keyed.idle)))
	}
}

// forget removes a key that has been retired. mu is held.
func (r *room[K]) forget(e *keyGate[K]) {
	r.keyed.keys.Delete(e.key)
	heap.Remove(&r.queue, e.pos)
	last := len(r.line) - 1
	r.line[e.at] = r.line[last]
	r.line[e.at].at = e.at
	r.line[last] = nil
	r.line = r.line[:last]
}

// evict forgets a key, if one that was due at now can be, and reports whether it did, and else whether
// there are more to look at. It is the key that has been idle longest, apart from some that were
// used again meanwhile. mu is held.
func (r *room[K]) evict(now int64) (found, more bool) {
	spare := chances
	for range batch {
		if e := r.next(); e != nil {
			r.look(e, now)
			continue
		}
		if len(r.queue) == 0 || r.queue[0].due > now {
			return false, false
		}
		e := r.queue[0]
		switch {
		case r.look(e, now) > now:
		case spare > 0 && e.used.Swap(false):
			spare--
			e.last = now
			r.put(e, now)
		case e.retire(now):
			r.forget(e)
			return true, false
		}
	}
	return false, true
}

// next returns one of the keys that were told of and are still remembered, or nil. mu is held.
func (r *room[K]) next() *keyGate[K] {
	for {
		if r.heard == nil {
			if r.told.Load() == nil {
				return nil
			}
			r.heard = r.told.Swap(nil)
		}
		e := r.heard
		r.heard, e.next = e.next, nil
		e.watch.Store(unwatched) // not before: from then on it can be told of again
		if e.pins.Load() >= 0 {
			return e
		}
	}
}

// look asks the gate of a key, and returns the instant, which it notes, before which the key certainly can't
// be forgotten. mu is held.
func (r *room[K]) look(e *keyGate[K], now int64) int64 {
	// What happens from here on is told of, whether or not what is found out below knows of it.
	e.arm(timed)
	if e.pins.Load() > 0 {
		e.arm(parked)
		if e.pins.Load() > 0 {
			r.put(e, never)
			return never
		}
	}
	at := e.idleAt(now)
	if at == unknown {
		if e.used.Swap(false) {
			e.last = now
		}
		// After as long again as it has been busy.
		wait := max(now-e.last, int64(time.Millisecond))
		at = timing.Later(now, time.Duration(min(wait, r.keyed.idle)))
	}
	if at > now || e.due > now {
		r.put(e, at)
	}
	return at
}

// put changes the place of a key in the queue. mu is held.
func (r *room[K]) put(e *keyGate[K], due int64) {
	e.due = due
	heap.Fix(&r.queue, e.pos)
}

// ring forgets keys that have not been used for long, and comes again as long as there are keys.
func (r *room[K]) ring() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarm.Rang()
	r.ringing = true
	now := r.keyed.clk.Now()
	looks := 0
	step := func() {
		if looks++; looks%batch == 0 {
			r.mu.Unlock()
			runtime.Gosched()
			r.mu.Lock()
		}
	}
	for e := r.next(); e != nil; e = r.next() {
		r.look(e, now)
		step()
	}
	// From the end: what takes the place of a key that is forgotten has been looked at.
	for i := len(r.line) - 1; i >= 0; i = min(i, len(r.line)) - 1 {
		e := r.line[i]
		if e.used.Swap(false) {
			e.last = now
		} else if now-e.last >= r.keyed.idle && e.due <= now && r.look(e, now) <= now && e.retire(now) {
			r.forget(e)
		}
		step()
	}
	r.ringing = false
	if len(r.line) > 0 {
		r.alarm.Set(now, timing.Later(now, time.Duration(r.keyed.idle)))
	}
}

// keyQueue is a heap of keys by the instant at which they are due.
type keyQueue[K comparable] []*keyGate[K]

func (q keyQueue[K]) Len() int           { return len(q) }
func (q keyQueue[K]) Less(i, j int) bool { return q[i].due < q[j].due }
func (q keyQueue[K]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].pos, q[j].pos = i, j
}
func (q *keyQueue[K]) Push(x any) {
	e := x.(*keyGate[K])
	e.pos = len(*q)
	*q = append(*q, e)
}
func (q *keyQueue[K]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
