package gate

import (
	"slices"
	"sync/atomic"
)

// keyGate is the gate of one key.
//
// Its life: vacate adds it with one pin. Each use pins it, and it can be forgotten only while it has no
// pin. When it is forgotten, pins goes below zero for good. A caller that has found it in the map before
// then finds out by pin, and asks for the key anew.
type keyGate[K comparable] struct {
	// Fixed once the key is added.
	key    K
	keyed  *Keyed[K]
	gate   Gate
	number uint64 // limits with a lower one are older than the key: they are shared with others
	mute   bool   // the gate does not say when it is idle
	kept   bool   // passes pin the key until they are left
	heeds  bool   // the end of an entry may make the gate idle

	used  atomic.Bool   // since the flag was last cleared
	watch atomic.Uint32 // how the room wants to be told
	pins  atomic.Int32  // uses under way; below zero: it is forgotten
	gone  atomic.Int64  // the end of the last use of a mute gate

	// next is the key behind this one in room.told. It belongs to the goroutine that has set watch to told,
	// and from then on to the one that takes the list.
	next *keyGate[K]

	// Guarded by Keyed.mu.
	last    int64 // when used was last found set
	due     int64 // not forgotten before; never: not before it is told
	pos, at int32 // its index in the queue, and in the line
}

// What watch says: of which events the room wants to be told, so that it looks at the key. Each level is
// told of all that the one before it is told of. A busy key costs nothing but a load as long as the room
// asks for less.
const (
	unwatched uint32 = iota // due is not later than the present
	timed                   // due is an instant: what makes it earlier is told
	parked                  // the key was pinned: the end of the last use is told, too
	told                    // it is in the list
)

// classify finds out what there is to know of the gate. A gate from elsewhere may become idle with any
// Leave, and one that is mute has to be pinned until its last Leave.
func (e *keyGate[K]) classify() {
	e.mute = !knows(e.gate)
	e.kept, e.heeds = e.mute, e.mute
	e.own(func(l part) {
		if l.kind().keeps {
			e.kept, e.heeds = true, true
		}
	}, func(Gate) { e.heeds = true })
}

// own calls inside with each limit that is the key's own, and outside with each gate from elsewhere. Limits
// that are shared with other keys are left out: they outlive the key, so forgetting it gives nothing back.
func (e *keyGate[K]) own(inside func(part), outside func(Gate)) {
	see := func(l part) {
		if l.born() > e.number {
			inside(l)
		}
	}
	of, _ := unview(e.gate)
	switch g := of.(type) {
	case *Composite:
		for _, m := range g.inside {
			see(m.to)
		}
		for _, h := range g.holds {
			see(h.to)
		}
		for _, o := range g.outside {
			outside(o.to)
		}
	case limited:
		see(g.part())
	case keyMember:
		// Its own Keyed remembers it.
	default:
		outside(g)
	}
}

// knows reports whether a gate says when it is idle. A composite does if all its gates from elsewhere do.
func knows(g Gate) bool {
	g, _ = unview(g)
	switch g := g.(type) {
	case *of:
		return false
	case *Composite:
		return !slices.ContainsFunc(g.outside, func(out reach[Gate]) bool { return !knows(out.to) })
	}
	_, ok := g.(interface{ Stats() Stats })
	return ok
}

// pin keeps the key from being forgotten until unpin. It reports false if the key is forgotten already:
// then this gate must not be entered.
func (e *keyGate[K]) pin() bool {
	for {
		n := e.pins.Load()
		if n < 0 {
			return false
		}
		if e.pins.CompareAndSwap(n, n+1) {
			e.use()
			return true
		}
	}
}

// unpin ends what pin began. The last use tells the room, if the room asked for that: the key may be idle
// sooner than it was due.
func (e *keyGate[K]) unpin() {
	if e.mute {
		e.gone.Store(e.keyed.clk.Now())
	}
	e.use()
	if e.pins.Add(-1) > 0 {
		return
	}
	if e.heeds {
		e.tell(timed)
	} else {
		e.tell(parked)
	}
}

// use notes that the key is used. It reads first, because a store by each entry would take the cache line
// from the others.
func (e *keyGate[K]) use() {
	if !e.used.Load() {
		e.used.Store(true)
	}
}

// arm asks to be told of what makes the key idle. If the key is in the list of the told already, it does
// nothing: the room will look at the key anyway.
func (e *keyGate[K]) arm(want uint32) {
	for w := e.watch.Load(); w != told && !e.watch.CompareAndSwap(w, want); w = e.watch.Load() {
	}
}

// tell puts the key on the list of those to be looked at, if least or more was asked for. It takes no lock:
// entries that end would contend for mu. A key is in the list once: the goroutine that sets watch puts it
// there.
func (e *keyGate[K]) tell(least uint32) {
	for w := e.watch.Load(); w >= least && w != told; w = e.watch.Load() {
		if !e.watch.CompareAndSwap(w, told) {
			continue
		}
		list := &e.keyed.told
		for {
			e.next = list.Load()
			if list.CompareAndSwap(e.next, e) {
				return
			}
		}
	}
}

// retire takes the gate out of use for good, if a new one would do just the same. Keyed.mu is held.
//
// It takes the pins first and looks then, so that no caller enters in between. If the gate is busy after
// all, callers that came meanwhile have to wait for mu and find the key there.
func (e *keyGate[K]) retire(now int64) bool {
	if !e.pins.CompareAndSwap(0, -1) {
		return false
	}
	if e.idleAt(now) <= now {
		return true
	}
	e.pins.Store(0)
	return false
}

// These are described at pinnedKey.

func (e *keyGate[K]) theGate() Gate { return e.gate }
func (e *keyGate[K]) born() uint64  { return e.number }
func (e *keyGate[K]) keeps() bool   { return e.kept }
func (e *keyGate[K]) settled()      { e.tell(timed) }
func (e *keyGate[K]) left() {
	if e.heeds {
		e.tell(timed)
	}
}
