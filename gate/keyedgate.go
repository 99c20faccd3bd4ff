package gate

import (
	"slices"
	"sync/atomic"
)

// keyGate is the gate of one key.
//
// A pin is a use under way. vacate adds the gate with one pin, and each use adds one. The key can be forgotten
// only while it has no pin: then pins becomes negative for good. A caller that still finds the gate in the map
// can't pin it any more, and asks for the key again.
type keyGate[K comparable] struct {
	// Fixed once the key is added.
	key    K
	keyed  *Keyed[K]
	gate   Gate
	number uint64 // limits with a lower number are older than the key: they are shared with others
	mute   bool   // the gate does not report when it is idle
	kept   bool   // passes pin the key until they are left
	heeds  bool   // the end of an entry may make the gate idle

	used  atomic.Bool   // it was used since the room last cleared this
	watch atomic.Uint32 // the events that the room wants to be told of: unwatched and so on, below
	pins  atomic.Int32  // uses under way; negative: it is forgotten
	gone  atomic.Int64  // the end of the last use of a mute gate

	// next is the key behind this one in room.told. The goroutine that sets watch to told owns it until the
	// key is in the list. From then on, the goroutine that takes the list owns it.
	next *keyGate[K]

	// Guarded by room.mu.
	last    int64 // when used was last found set
	due     int64 // the key is not forgotten before; never: not before the room is told
	pos, at int32 // its index in the queue, and in the line
}

// The values of watch: the events that the room wants to be told of, so that it looks at the key. Each level
// includes those before it. As long as the room does not ask for an event, the event costs no more than a load.
const (
	unwatched uint32 = iota // none: due has passed, so the room looks anyway
	timed                   // events that make due earlier
	parked                  // also the end of the last use: the key was pinned at the last look
	told                    // none: the key is in the list, so the room looks anyway
)

// classify sets mute, kept and heeds. A gate from elsewhere may become idle at any Leave, and a mute one has to
// be pinned until its last Leave.
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
// that are shared with other keys are left out: they outlive the key, so forgetting it refunds nothing there.
func (e *keyGate[K]) own(inside func(part), outside func(Gate)) {
	see := func(l part) {
		if l.born() > e.number {
			inside(l)
		}
	}
	of, _ := unview(e.gate)
	switch in := native(of).(type) {
	case compound:
		in.parts(see, outside)
	case limited:
		see(in.part())
	default:
		outside(of)
	}
}

// knows reports whether a gate reports when it is idle. Some gates with statistics are mute all the same.
func knows(g Gate) bool {
	g, _ = unview(g)
	if m, ok := native(g).(interface{ mute() bool }); ok {
		return !m.mute()
	}
	_, ok := g.(interface{ Stats() Stats })
	return ok
}

// mute reports whether one of the gates from elsewhere is mute.
func (a *Composite) mute() bool {
	return slices.ContainsFunc(a.outside, func(out reach[Gate]) bool { return !knows(out.to) })
}

// pin keeps the key from being forgotten until unpin. If the key is forgotten already, it reports false: then
// this gate must not be entered.
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

// unpin ends a use that pin began. After the last use it tells the room, if the room has asked for that: the
// key may be idle before it is due.
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

// use notes that the key is used. It reads first, because a store for each entry would take the cache line
// from other processors.
func (e *keyGate[K]) use() {
	if !e.used.Load() {
		e.used.Store(true)
	}
}

// arm asks to be told of the events of want. If the key is in the list already, it does nothing: the room will
// look at the key anyway.
func (e *keyGate[K]) arm(want uint32) {
	for w := e.watch.Load(); w != told && !e.watch.CompareAndSwap(w, want); w = e.watch.Load() {
	}
}

// tell puts the key on the list of keys to look at, if the room has asked for least or a higher level. It takes
// no lock: entries that end would contend for mu. Only the goroutine that sets watch to told adds the key, so
// it is in the list once.
func (e *keyGate[K]) tell(least uint32) {
	for w := e.watch.Load(); w >= least && w != told; w = e.watch.Load() {
		if !e.watch.CompareAndSwap(w, told) {
			continue
		}
		list := &e.keyed.room.told
		for {
			e.next = list.Load()
			if list.CompareAndSwap(e.next, e) {
				return
			}
		}
	}
}

// retire takes the gate out of use for good, if a new one would behave exactly the same. room.mu is held.
//
// It makes pins negative before it looks, so that no caller enters in between. Callers that fail to pin the key
// meanwhile wait for mu. If the gate turns out to be busy, they find it again.
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
