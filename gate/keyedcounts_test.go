package gate_test

import (
	"context"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// The counts of a key outlast it, so that those of the Keyed only grow.
func TestKeyedCountsOfForgottenKeys(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		k := gate.NewKeyed(func(int) gate.Gate {
			return gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		}, &gate.KeyedOptions{MaxKeys: 2, Clock: b.Clock()})
		var want gate.Stats
		for key := range 5 {
			k.TryEnter(key, 1)
			k.TryEnter(key, 1) // refused
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() {
				_, err := k.Enter(ctx, key, 1)
				done <- err
			}()
			b.Advance(time.Second / 2)
			cancel()
			<-done
			b.Advance(time.Second) // a token is back, so the key can be forgotten
			want.Granted++
			want.Refused++
			want.Abandoned++
			if s := k.Stats(); s.Granted != want.Granted || s.Refused != want.Refused || s.Abandoned != want.Abandoned {
				b.Errorf("after key %d: %+v, want %+v", key, s, want)
			}
		}
		if k.Len() != 2 {
			b.Errorf("%d keys, want 2", k.Len())
		}
		b.Advance(5 * time.Minute)
		if s := k.Stats(); k.Len() != 0 || s.Granted != 5 || s.Refused != 5 || s.NoRoom != 0 || s.Abandoned != 5 {
			b.Errorf("%d keys, %+v, want none, and 5 of each", k.Len(), s)
		}
	})
}

// A gate that several keys share may be forgotten and come back any number of times: its counts are not counted again.
func TestKeyedCountsOfSharedGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		shared := gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()})
		k := gate.NewKeyed(func(int) gate.Gate { return shared }, &gate.KeyedOptions{Clock: b.Clock()})
		for n := range uint64(3) {
			k.TryEnter(0, 1)
			if s := k.Stats(); s.Granted != n+1 {
				b.Errorf("granted %d, want %d", s.Granted, n+1)
			}
			b.Advance(5 * time.Minute)
			if s := k.Stats(); k.Len() != 0 || s.Granted != n+1 {
				b.Errorf("granted %d by %d keys, want %d by none", s.Granted, k.Len(), n+1)
			}
		}
	})
}
