package gate

import (
	"context"
	"time"
)

// keyView is the gate of one key.
type keyView[K comparable] struct {
	k   *Keyed[K]
	key K
}

func (v keyView[K]) Enter(ctx context.Context, cost int) (Pass, error) {
	return v.k.Enter(ctx, v.key, cost)
}

func (v keyView[K]) TryEnter(cost int) (Pass, bool) { return v.k.TryEnter(v.key, cost) }

// Hold is described at [Keyed.For].
func (v keyView[K]) Hold(d time.Duration) {
	if d <= 0 {
		return
	}
	if e, err := v.k.pin(context.Background(), false, v.key); err == nil {
		defer e.unpin()
		if h, ok := e.gate.(interface{ Hold(time.Duration) }); ok {
			h.Hold(d)
		}
	}
}

// Stats returns the statistics of the key's gate. A key that is not remembered is idle.
func (v keyView[K]) Stats() Stats {
	if e, ok := v.k.keys.Load(v.key); ok {
		s, _ := StatsOf(e.(*keyGate[K]).gate)
		return s
	}
	return Stats{Idle: true}
}

// pinKey is described at keyMember.
func (v keyView[K]) pinKey(ctx context.Context, wait bool) (pinnedKey, error) {
	e, err := v.k.pin(ctx, wait, v.key)
	if err != nil {
		return nil, err
	}
	return e, nil
}
