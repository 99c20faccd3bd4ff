package gate

import (
	"context"
	"sync"
	"sync/atomic"
)

// keyMember is the gate of a key, as [Keyed.For] returns it.
type keyMember interface {
	Gate
	// pinKey returns the gate of the key, made if need be, as Keyed.pin does.
	pinKey(ctx context.Context, wait bool) (pinnedKey, error)
}

// pinnedKey is the gate of a key, of any Keyed, that is not forgotten before unpin.
type pinnedKey interface {
	theGate() Gate
	number() uint64 // no other key has it
	keeps() bool    // its passes pin the key until they are left
	unpin()
	settled() // a pass was settled
	left()    // a pass that does not pin the key was left
}

// keyPass is what the pass of an entry with keys goes back to, if it has to be told of its end. It is
// used over and over; the turn tells its passes apart.
type keyPass struct {
	turn atomic.Uint64
	pass Pass        // of the gate
	keys []pinnedKey // those that are pinned
	free []pinnedKey // those that are not
}

var keyPasses = sync.Pool{New: func() any { return new(keyPass) }}

// admitted ends the use of the gate by an entry that has got in, unless its pass pins the key.
func (e *keyGate[K]) admitted(p Pass, cost int) Pass {
	if plain := plainKeeper(e.gate); plain != nil && p.keeper == plain {
		e.unpin()
		return Pass{(*plainKey[K])(e), p.id, p.cost}
	}
	t := keyPasses.Get().(*keyPass)
	t.keys = append(t.keys, e)
	return t.admitted(p, cost)
}

// admitted makes the pass of an entry that the gate has let in with p.
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

// drop ends the uses of all keys, and the use of t.
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

func (t *keyPass) Leave(turn uint64, _ int, err error) {
	if !t.turn.CompareAndSwap(turn, turn+1) {
		panic("gate: Pass.Leave: must be called once, got a second call")
	}
	defer t.drop()
	t.pass.Leave(err)
}

func (t *keyPass) Settle(turn uint64, _, actual int) {
	if t.turn.Load() != turn {
		panic("gate: Pass.Settle: must be called before Leave, got a call after it")
	}
	t.pass.Settle(actual)
	for _, e := range t.free {
		e.settled()
	}
}

// plainKeeper returns what all passes of a gate go back to that need not be left, or nil.
func plainKeeper(g Gate) Keeper {
	switch g := g.(type) {
	case *Rate:
		return (*rateKeeper)(g)
	case *Window:
		return (*windowKeeper)(g)
	}
	return nil
}

// plainKey is the key whose passes go back to a plainKeeper.
type plainKey[K comparable] keyGate[K]

func (e *plainKey[K]) Leave(id uint64, cost int, err error) { plainKeeper(e.gate).Leave(id, cost, err) }
func (e *plainKey[K]) Settle(id uint64, cost, actual int) {
	plainKeeper(e.gate).Settle(id, cost, actual)
	(*keyGate[K])(e).tell(timed)
}
