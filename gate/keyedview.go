package gate

import (
	"context"
	"time"
)

// Key is the gate of one key of a [Keyed], as [Keyed.For] returns it. Use it where a [Gate] is asked for,
// such as a member of an [All]. It works like the gate that the Keyed has made for the key.
//
// Two for the same key are equal. It is a small value, and keeps nothing: the key can be forgotten, and its
// gate is made again when the Key is entered.
type Key[K comparable] struct {
	k   *Keyed[K]
	key K
}

// Enter is that of [Keyed.Enter], with its errors and panics.
func (v Key[K]) Enter(ctx context.Context, cost int) (Pass, error) {
	return v.keyed().Enter(ctx, v.key, cost)
}

// TryEnter is that of [Keyed.TryEnter].
func (v Key[K]) TryEnter(cost int) (Pass, bool) { return v.keyed().TryEnter(v.key, cost) }

// Hold holds the gate of the key, if that can be held and there is room for the key. As long as a gate of
// this package is held, its key is not forgotten. A d that is not positive does nothing.
func (v Key[K]) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	if e, err := v.keyed().pin(context.Background(), false, v.key); err == nil {
		defer e.unpin()
		Hold(e.gate, d)
	}
}

// Stats returns the statistics of the key's gate. A key that is not remembered is idle. No gate is made.
func (v Key[K]) Stats() Stats {
	if e, ok := v.keyed().keys.Load(v.key); ok {
		s, _ := StatsOf(e.(*keyGate[K]).gate)
		return s
	}
	return Stats{Idle: true}
}

// pinKey is described at keyMember.
func (v Key[K]) pinKey(ctx context.Context, wait bool) (pinnedKey, error) {
	e, err := v.keyed().pin(ctx, wait, v.key)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// keyed returns the Keyed. It panics on the zero Key, which has none.
func (v Key[K]) keyed() *Keyed[K] {
	if v.k == nil {
		panicOnZero()
	}
	return v.k
}
