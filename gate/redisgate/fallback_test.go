//go:build unix

package redisgate_test

import (
	"context"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/redisgate"
)

// away returns a gate with a fallback that has noticed that its Redis is not there.
func away(t *testing.T, fallback gate.Gate) *redisgate.Gate {
	t.Helper()
	c := nowhere()
	t.Cleanup(func() { c.Close() })
	g := redisgate.New(c, key(), redisgate.Limits{redisgate.Strict(10, time.Second, nil)}, &redisgate.Options{Timeout: 100 * ms, Fallback: fallback})
	t.Cleanup(func() { closed(t, g) })
	enter(t, g, 1).Leave(nil)
	return g
}

// A hold keeps back entries that wait at the fallback already, too. What the fallback gives them
// meanwhile goes back.
func TestFallbackHeld(t *testing.T) {
	t.Parallel()
	share := gate.NewConcurrency(1)
	g := away(t, share)
	inside := enter(t, g, 1)
	in := make(chan time.Time, 2)
	for range 2 {
		go func() {
			p := enter(t, g, 1)
			in <- time.Now()
			p.Leave(nil)
		}()
	}
	within(t, 5*time.Second, "two wait in the fallback", func() bool { return share.Stats().Waiting == 2 })
	called := time.Now()
	g.Hold(700 * ms)
	inside.Leave(nil)
	for range 2 {
		if took := (<-in).Sub(called); took < 700*ms {
			t.Errorf("the fallback let somebody in %v after a hold of 700ms", took)
		}
	}
	within(t, 5*time.Second, "the fallback is empty", func() bool { return share.Stats().InUse == 0 })
	if n := g.Stats().Granted; n != 4 {
		t.Errorf("%d entries by the statistics, want 4", n)
	}
}

// Close ends the wait of entries at the fallback, too.
func TestFallbackClosed(t *testing.T) {
	t.Parallel()
	share := gate.NewConcurrency(1)
	g := away(t, share)
	inside := enter(t, g, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		_, err := g.Enter(ctx, 1)
		got <- err
	}()
	within(t, 5*time.Second, "one waits in the fallback", func() bool { return share.Stats().Waiting == 1 })
	closed(t, g)
	if err := <-got; err != redisgate.ErrClosed {
		t.Errorf("who waited in the fallback got %v, want ErrClosed", err)
	}
	inside.Leave(nil)
	if n := share.Stats().InUse; n != 0 {
		t.Errorf("%d slots of the fallback are taken, want none", n)
	}
}

// What TryEnter does by way of the fallback is in the statistics.
func TestFallbackCounted(t *testing.T) {
	t.Parallel()
	g := away(t, gate.NewConcurrency(3))
	before := g.Stats()
	for range 10 {
		g.TryEnter(1)
	}
	after := g.Stats()
	if granted, refused := after.Granted-before.Granted, after.Refused-before.Refused; granted != 3 || refused != 7 {
		t.Errorf("the statistics say %d granted and %d refused, want 3 and 7", granted, refused)
	}
}
