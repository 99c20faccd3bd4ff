package gate

import "sync"

// pinnedKey is a keyGate that is pinned, without the type of its key.
type pinnedKey interface {
	theGate() Gate
	born() uint64 // the number of the key; older keys have lower ones
	keeps() bool  // its passes pin the key until they are left
	unpin()       // ends one use
	settled()     // a pass was settled: tokens may have come back
	left()        // a pass that does not pin the key was left
}

// keyPass is the Keeper of an entry with keys that have to be told of its end. It unpins them when the pass is
// left.
type keyPass struct {
	life
	pass Pass        // of the gate, or of the composite of all keys' gates
	keys []pinnedKey // those that this entry still pins
	free []pinnedKey // those that it has unpinned: they are still told of Settle and Leave
	room [4]pinnedKey
}

var keyPasses = sync.Pool{New: func() any {
	t := &keyPass{}
	t.keys, t.free = t.room[0:0:2], t.room[2:2]
	return t
}}

// admitted returns the pass of an entry that the gate has admitted with p. It takes over the caller's pin.
//
// A pass of a Rate or a Window need not be left, and all have the same Keeper. So admitted unpins their key at
// once, and makes the key itself the Keeper in place of a keyPass.
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
	_, t.forget = p.tracked().keeper.(*ticket) // after Leave, a Settle does nothing
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

// drop unpins all keys and frees t, for an entry that failed.
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

// Leave leaves the gate before it unpins the keys, because an unpinned key may be forgotten. A Settle after
// that has no effect on a new gate of the key.
func (t *keyPass) Leave(id uint64, _ int, err error) {
	t.leave(id)
	defer t.release()
	defer t.unpin()
	t.pass.Leave(err)
}

// Settle tells the keys that are not pinned, because they may be idle sooner. Keys that are pinned are looked
// at when they are unpinned.
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

// correct calls settle, which settles the pass, and then tells the keys. If settle panics, the pass counts as
// not settled.
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

// plainKeeper returns the Keeper of all passes of a Rate, or of a Window without UntilAnswer. It returns nil for
// other gates.
func plainKeeper(g Gate) Keeper {
	of, costs := unview(g)
	if len(costs) > 0 {
		return nil // its passes may be those of a composite
	}
	if g, ok := of.(interface{ keeper() Keeper }); ok {
		return g.keeper()
	}
	return nil
}

// plainKey is the Keeper of a pass from a gate with a plainKeeper: the key itself, which is told of a Settle.
type plainKey[K comparable] keyGate[K]

func (e *plainKey[K]) Leave(id uint64, cost int, err error) { plainKeeper(e.gate).Leave(id, cost, err) }
func (e *plainKey[K]) Settle(id uint64, cost, actual int) {
	plainKeeper(e.gate).Settle(id, cost, actual)
	(*keyGate[K])(e).tell(timed)
}
