package gate

import (
	"context"
	"sync"
)

// keyMember is the gate of a key, as [Keyed.For] returns it. It is a Key, without the type of the key: a
// composite has keys of any type.
type keyMember interface {
	Gate
	// pinKey returns the gate of the key, pinned, and makes it if need be. Without wait it looks for room
	// only among few keys. See Keyed.pin.
	pinKey(ctx context.Context, wait bool) (pinnedKey, error)
}

// pinnedKey is the gate of a key, of any Keyed, that is not forgotten before unpin. It is a keyGate,
// without the type of the key.
type pinnedKey interface {
	theGate() Gate
	born() uint64 // a number that no other key has; older keys have lower ones
	keeps() bool  // its passes pin the key until they are left
	unpin()       // ends one use
	settled()     // a pass was settled: tokens may have come back
	left()        // a pass that does not pin the key was left
}

// keyPass is what the pass of an entry with keys goes back to, if the keys have to be told of its end. It
// unpins them when the pass is left.
type keyPass struct {
	life
	pass Pass        // of the gate, or of the composite of all keys' gates
	keys []pinnedKey // those that this entry still pins
	free []pinnedKey // those that it has unpinned: they are told of Settle and Leave all the same
	room [4]pinnedKey
}

var keyPasses = sync.Pool{New: func() any {
	t := &keyPass{}
	t.keys, t.free = t.room[0:0:2], t.room[2:2]
	return t
}}

// admitted returns the pass of an entry that the gate has admitted with p, and takes over the pin of its
// caller.
//
// A Rate or a Window needs no Leave, and all its passes go back to the same Keeper. So their key is
// unpinned at once, and the pass needs no keyPass: it goes back to the key itself.
func (e *keyGate[K]) admitted(p Pass, cost int) Pass {
	if plain := plainKeeper(e.gate); plain != nil && p.keeper == plain {
		e.unpin()
		return Pass{(*plainKey[K])(e), p.id, p.cost}
	}
	t := keyPasses.Get().(*keyPass)
	t.keys = append(t.keys, e)
	return t.admitted(p, cost)
}

// admitted makes the pass of an entry that the gate has admitted with p. Keys that need not be kept until
// Leave are unpinned now.
func (t *keyPass) admitted(p Pass, cost int) Pass {
	t.pass = p
	_, t.forget = p.keeper.(*ticket) // after Leave, a Settle does nothing
	kept := t.keys[:0]
	for _, e := range t.keys {
		if e.keeps() {
			kept = append(kept, e)
			continue
		}
		t.free = append(t.free, e)
		e.unpin()
	}
	clear(t.keys[len(kept):])
	t.keys = kept
	return Pass{t, t.id(), cost}
}

// drop ends the uses of all keys, and the use of t. It is the end of an entry that failed, or of a pass that
// is over.
func (t *keyPass) drop() {
	t.unpin()
	clear(t.free)
	t.pass, t.free = Pass{}, t.free[:0]
	keyPasses.Put(t)
}

// unpin unpins all keys that are pinned, and tells the others that the pass was left.
func (t *keyPass) unpin() {
	for _, e := range t.free {
		e.left()
	}
	for _, e := range t.keys {
		e.unpin()
	}
	t.free = append(t.free, t.keys...)
	clear(t.keys)
	t.keys = t.keys[:0]
}

// Leave leaves the gate before it unpins the keys. A key that is unpinned may be forgotten. To settle the
// pass then does nothing to the gate that may be made for the key anew.
func (t *keyPass) Leave(id uint64, _ int, err error) {
	t.leave(id)
	defer t.release()
	defer t.unpin()
	t.pass.Leave(err)
}

// Settle tells the keys that are not pinned: they may be idle sooner. Those that are pinned are looked at
// when they are unpinned.
func (t *keyPass) Settle(id uint64, _, actual int) {
	if t.settle(id) {
		defer t.release()
		t.correct(func() { t.pass.Settle(actual) })
	}
}

// SettleEach is Settle with several costs.
func (t *keyPass) SettleEach(id uint64, _ int, actual []int) {
	if t.settle(id) {
		defer t.release()
		t.correct(func() { t.pass.SettleEach(actual...) })
	}
}

// correct calls settle, which settles the pass. If it panics, the pass is not settled.
func (t *keyPass) correct(settle func()) {
	t.settled = false
	settle()
	t.settled = true
	for _, e := range t.free {
		e.settled()
	}
}

// release ends a call of Leave or Settle, and frees the record if it was the last one.
func (t *keyPass) release() {
	if t.done() {
		clear(t.free)
		t.pass, t.free = Pass{}, t.free[:0]
		keyPasses.Put(t)
	}
}

// plainKeeper returns what all passes of a gate go back to that need not be left, or nil for other gates.
func plainKeeper(g Gate) Keeper {
	of, costs := unview(g)
	if len(costs) > 0 {
		return nil // its passes may be those of a composite
	}
	switch g := of.(type) {
	case *Rate:
		return (*rateKeeper)(g)
	case *Window:
		if !g.l.until {
			return (*windowKeeper)(g.l)
		}
	}
	return nil
}

// plainKey is what a pass goes back to whose gate has a plainKeeper: the key, which is told of a Settle.
type plainKey[K comparable] keyGate[K]

func (e *plainKey[K]) Leave(id uint64, cost int, err error) { plainKeeper(e.gate).Leave(id, cost, err) }
func (e *plainKey[K]) Settle(id uint64, cost, actual int) {
	plainKeeper(e.gate).Settle(id, cost, actual)
	(*keyGate[K])(e).tell(timed)
}
