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
	batch   = 32  // looks at keys before mu is released for a moment
	tries   = 256 // looks of a caller that must not wait
	chances = 8   // keys in a batch that are spared because they were used since the last look
)

// room has the keys of a Keyed, and finds one that can be forgotten.
//
// Each key has an instant, due, before which it can't be forgotten. The keys are in a heap by due. So if a key
// can be forgotten, it is at the top of the heap or in the list told.
//
// A use of a key can only make its true instant later, so uses don't touch the heap. A key that is due but busy
// gets a later instant when it is looked at. The end of the last use and a refund can make the true instant
// earlier. Then the key is put on told, which takes no lock.
type room[K comparable] struct {
	keyed *Keyed[K]
	told  atomic.Pointer[keyGate[K]] // list, by next, of keys that may be idle sooner than they were due

	// mu guards all below. The locks of gates may be taken under it, but it is not taken under theirs. The
	// function that makes gates is not called under it.
	mu      sync.Mutex
	heard   *keyGate[K]   // list taken from told, yet to be looked at
	line    []*keyGate[K] // all keys, in no order
	queue   keyQueue[K]   // all keys, by due
	alarm   *timing.Alarm // rings each Idle as long as there are keys
	ringing bool          // ring is under way, even if it has released mu for a moment
	past    Stats         // the counts of all keys that were forgotten, less those that gates had before their key
}

// add remembers a key, and sets the alarm if it is the first one. mu is held.
func (r *room[K]) add(e *keyGate[K], now int64) {
	s, _ := StatsOf(e.gate) // before callers can find it; not 0 if keys share a gate
	r.past.uncount(s)
	e.last, e.due = now, now
	e.gone.Store(now)
	r.keyed.keys.Store(e.key, e)
	e.at = int32(len(r.line))
	r.line = append(r.line, e)
	heap.Push(&r.queue, e)
	if len(r.line) == 1 && !r.ringing {
		r.alarm.Set(now, timing.Later(now, time.Duration(r.keyed.idle)))
	}
}

// forget removes a key that has been retired, and keeps its counts. The last key of the line takes its place. mu is
// held.
func (r *room[K]) forget(e *keyGate[K]) {
	s, _ := StatsOf(e.gate)
	r.past.count(s)
	r.keyed.keys.Delete(e.key)
	heap.Remove(&r.queue, int(e.pos))
	last := len(r.line) - 1
	r.line[e.at] = r.line[last]
	r.line[e.at].at = e.at
	r.line[last] = nil
	r.line = r.line[:last]
}

// evict forgets one of the keys that are due at now, if one of them is idle. found reports whether it did. If
// not, more reports whether there are more keys to look at. mu is held.
//
// It first looks at the keys in told, because these may be idle sooner than the heap knows. Then it goes by due.
// It spares keys that were used since the last look, but at most chances of them in a batch, so that a batch
// finds one.
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

// next returns one of the keys in told that are still remembered, or nil. It takes the whole list at once: to
// take a single key off a list that other goroutines add to needs a lock. mu is held.
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
		e.watch.Store(unwatched) // after next was read: from here on the key can be put on the list again
		if e.pins.Load() >= 0 {
			return e
		}
	}
}

// look asks the gate of a key, and returns the instant before which the key can't be forgotten.
// It notes that instant in the heap. mu is held.
func (r *room[K]) look(e *keyGate[K], now int64) int64 {
	// From here on events are told. So an event that comes too late for the answers below is not lost.
	e.arm(timed)
	if e.pins.Load() > 0 {
		e.arm(parked)
		if e.pins.Load() > 0 { // still pinned: the end of the last use will be told
			r.put(e, never)
			return never
		}
	}
	at := e.idleAt(now)
	if at == unknown {
		if e.used.Swap(false) {
			e.last = now
		}
		// Look again after as long as it has been busy. So looks are few, and the delay is at most that long.
		wait := max(now-e.last, int64(time.Millisecond))
		at = timing.Later(now, time.Duration(min(wait, r.keyed.idle)))
	}
	if at > now || e.due > now {
		r.put(e, at)
	}
	return at
}

// put changes the place of a key in the heap. mu is held.
func (r *room[K]) put(e *keyGate[K], due int64) {
	e.due = due
	heap.Fix(&r.queue, int(e.pos))
}

// ring forgets keys that have not been used for Idle, and sets the alarm again as long as there are keys. The
// alarm calls it, in a goroutine of its own. It releases mu between batches, so that callers with a new key
// don't wait for long.
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
	// Backwards, because the last key takes the place of a forgotten one, and has been looked at already.
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

// keyQueue is a heap of keys by the instant at which they are due. The methods are those of heap.Interface.
type keyQueue[K comparable] []*keyGate[K]

func (q keyQueue[K]) Len() int           { return len(q) }
func (q keyQueue[K]) Less(i, j int) bool { return q[i].due < q[j].due }
func (q keyQueue[K]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].pos, q[j].pos = int32(i), int32(j)
}
func (q *keyQueue[K]) Push(x any) {
	e := x.(*keyGate[K])
	e.pos = int32(len(*q))
	*q = append(*q, e)
}
func (q *keyQueue[K]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
