package gate

import (
	"slices"
	"sync/atomic"
)

// keyGate is the gate of one key.
type keyGate[K comparable] struct {
	key   K
	keyed *Keyed[K]
	gate  Gate
	born  uint64 // its number among gates; members with a lower one are shared with others
	mute  bool   // the gate does not say when it is idle
	kept  bool   // passes pin the key until they are left
	heeds bool   // the end of an entry may make the gate idle

	used  atomic.Bool   // since the flag was last cleared
	watch atomic.Uint32 // how the room wants to be told
	pins  atomic.Int64  // uses under way; below zero: it is forgotten
	gone  atomic.Int64  // the end of the last use of a mute gate

	next *keyGate[K] // in the list of the told; its own while watch is told

	// Guarded by Keyed.mu.
	last    int64 // when the flag was last found set
	due     int64 // not forgotten before; never: not before it is told
	pos, at int   // in the queue and the line
}

// What watch says. The higher ones are told of more.
const (
	unwatched uint32 = iota // due is not later than the present
	timed                   // due is an instant: what makes it earlier is told
	parked                  // the key was pinned: the end of the last use is told, too
	told                    // it is in the list
)

// classify finds out what there is to know of the gate.
func (e *keyGate[K]) classify() {
	e.mute = !knows(e.gate)
	e.kept, e.heeds = e.mute, e.mute
	inside, outside := e.own()
	for _, m := range inside {
		switch m.(type) {
		case *rateMember, *windowMember:
		default:
			e.kept, e.heeds = true, true
		}
	}
	e.heeds = e.heeds || len(outside) > 0
}

// own returns the gates that are the key's own: members, and gates from elsewhere.
func (e *keyGate[K]) own() (inside []member, outside []Gate) {
	switch g := e.gate.(type) {
	case *all:
		inside, outside = g.inside, g.outside
	case interface{ member() member }:
		inside = []member{g.member()}
	case keyMember:
		// Its own Keyed remembers it.
	default:
		outside = []Gate{g}
	}
	if shared := func(m member) bool { return m.node().born <= e.born }; slices.ContainsFunc(inside, shared) {
		inside = slices.DeleteFunc(slices.Clone(inside), shared)
	}
	return inside, outside
}

// knows reports whether a gate says when it is idle.
func knows(g Gate) bool {
	switch g := g.(type) {
	case *of:
		return false
	case *all:
		return !slices.ContainsFunc(g.outside, func(out Gate) bool { return !knows(out) })
	}
	_, ok := g.(interface{ Stats() Stats })
	return ok
}

// pin keeps the key from being forgotten, unless it is already.
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

// unpin ends what pin began.
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

// use notes that the key is used.
func (e *keyGate[K]) use() {
	if !e.used.Load() {
		e.used.Store(true)
	}
}

// arm asks to be told of what makes the key idle, unless it is in the list of the told already.
func (e *keyGate[K]) arm(want uint32) {
	for w := e.watch.Load(); w != told && !e.watch.CompareAndSwap(w, want); w = e.watch.Load() {
	}
}

// tell puts the key on the list of those to be looked at, if least or more was asked for.
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

func (e *keyGate[K]) theGate() Gate  { return e.gate }
func (e *keyGate[K]) number() uint64 { return e.born }
func (e *keyGate[K]) keeps() bool    { return e.kept }
func (e *keyGate[K]) settled()       { e.tell(timed) }
func (e *keyGate[K]) left() {
	if e.heeds {
		e.tell(timed)
	}
}
