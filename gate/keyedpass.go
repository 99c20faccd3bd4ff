package gate

import (
	"context"
	"sync"
	"sync/atomic"
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
//
// It is used again for other entries, as a ticket is; the turn tells its passes apart. The turn is atomic,
// so a second Leave is found out even at the same time as the first.
type keyPass struct {
	turn atomic.Uint64
	pass Pass        // of the gate, or of the composite of all keys' gates
	keys []pinnedKey // those that this entry still pins
	free []pinnedKey // those that it has unpinned: they are told of Settle and Leave all the same
}

var keyPasses = sync.Pool{New: func() any { return new(keyPass) }}

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
	return Pass{t, t.turn.Load(), cost}
}

// drop ends the uses of all keys, and the use of t. It is the end of a pass, or of an entry that failed.
func (t *keyPass) drop() {
	for _, e := range t.free {
		e.left()
	}
	for _, e := range t.keys {
		e.unpin()
	}
	clear(t.free)
	clear(t.keys)
	t.pass, t.keys, t.free = Pass{}, t.keys[:0], t.free[:0]
	keyPasses.Put(t)
}

// Leave leaves the gate before it unpins the keys. A key that is unpinned may be forgotten.
func (t *keyPass) Leave(turn uint64, _ int, err error) {
	if !t.turn.CompareAndSwap(turn, turn+1) {
		panic("gate: Pass.Leave: must be called once, got a second call")
	}
	defer t.drop()
	t.pass.Leave(err)
}

// Settle tells the keys that are not pinned: they may be idle sooner. Those that are pinned are looked at
// when they are unpinned.
func (t *keyPass) Settle(turn uint64, _, actual int) {
	if t.turn.Load() != turn {
		panic("gate: Pass.Settle: must be called before Leave, got a call after it")
	}
	t.pass.Settle(actual)
	for _, e := range t.free {
		e.settled()
	}
}

// plainKeeper returns what all passes of a gate go back to that need not be left, or nil for other gates.
func plainKeeper(g Gate) Keeper {
	switch g := g.(type) {
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
