package gate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// waits is a limiter from elsewhere that counts its calls.
type waits struct {
	calls int
	err   error  // of all calls but the first
	do    func() // in each call
}

func (w *waits) Wait(context.Context) error {
	if w.do != nil {
		w.do()
	}
	if w.calls++; w.calls > 1 {
		return w.err
	}
	return nil
}

// waitsForMany has WaitN as well, and Allow.
type waitsForMany struct {
	waits
	n     []int
	allow bool
	asked int
}

func (w *waitsForMany) WaitN(_ context.Context, n int) error { w.n = append(w.n, n); return w.err }
func (w *waitsForMany) Allow() bool                          { w.asked++; return w.allow }

func statsOf(t *testing.T, g gate.Gate, want gate.Stats) {
	t.Helper()
	if got, ok := gate.StatsOf(g); !ok || got != want {
		t.Errorf("stats %+v, %v; want %+v", got, ok, want)
	}
}

// An entry waits cost times, and ends with the first error of the limiter.
func TestOfWaitsCostTimes(t *testing.T) {
	ctx, full := context.Background(), errors.New("full")
	w := &waits{}
	g := gate.Of(w)
	w.do = func() { statsOf(t, g, gate.Stats{Left: -1, Waiting: 1}) }
	if _, err := g.Enter(ctx, 3); err != nil || w.calls != 3 {
		t.Errorf("%v after %d calls of Wait, want 3", err, w.calls)
	}
	w.do = nil
	statsOf(t, g, gate.Stats{Left: -1, Granted: 1})

	w = &waits{err: full}
	g = gate.Of(w)
	if _, err := g.Enter(ctx, 3); err != full || w.calls != 2 {
		t.Errorf("%v after %d calls of Wait, want %v after 2", err, w.calls, full)
	}
	if _, ok := g.TryEnter(1); ok || w.calls != 2 {
		t.Error("a limiter that can't be asked was waited for")
	}
	statsOf(t, g, gate.Stats{Left: -1, Refused: 2})
}

// A limiter's WaitN is for costs above 1, its Allow for a cost of 1.
func TestOfWaitN(t *testing.T) {
	ctx, full := context.Background(), errors.New("full")
	w := &waitsForMany{}
	g := gate.Of(w)
	for _, cost := range []int{1, 2, 9} {
		if _, err := g.Enter(ctx, cost); err != nil {
			t.Error(err)
		}
	}
	if w.calls != 1 || len(w.n) != 2 || w.n[0] != 2 || w.n[1] != 9 {
		t.Errorf("%d calls of Wait, and of WaitN with %v", w.calls, w.n)
	}
	w.err = full
	if _, err := g.Enter(ctx, 2); err != full {
		t.Errorf("%v, want %v", err, full)
	}
	_, refused := g.TryEnter(1)
	w.allow = true
	_, allowed := g.TryEnter(1)
	_, dear := g.TryEnter(2)
	if refused || !allowed || dear || w.asked != 2 {
		t.Errorf("TryEnter: %v where the limiter refuses, %v where it allows, %v at a cost of 2; it was asked %d times", refused, allowed, dear, w.asked)
	}
	statsOf(t, g, gate.Stats{Left: -1, Granted: 4, Refused: 3})
}

// A context that has ended gives its cause, whatever the limiter says; an entry that the limiter let in
// all the same is in.
func TestOfContext(t *testing.T) {
	cause := errors.New("no longer needed")
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &waits{calls: 1, err: errors.New("ended"), do: func() { cancel(cause) }}
	g := gate.Of(w)
	if _, err := g.Enter(ctx, 1); err != cause {
		t.Errorf("ended while waiting: %v, want %v", err, cause)
	}
	if _, err := g.Enter(ctx, 1); err != cause || w.calls != 2 {
		t.Errorf("ended before: %v after %d calls, want %v without another", err, w.calls-1, cause)
	}
	statsOf(t, g, gate.Stats{Left: -1, Abandoned: 2})

	ctx, cancel = context.WithCancelCause(context.Background())
	g = gate.Of(&waits{do: func() { cancel(cause) }})
	if _, err := g.Enter(ctx, 1); err != nil {
		t.Errorf("let in as the context ended: %v", err)
	}
	statsOf(t, g, gate.Stats{Left: -1, Granted: 1})
}

// What a composite's outer gate refuses costs its other members nothing.
func TestAdaptiveIsUndone(t *testing.T) {
	full := errors.New("full")
	a := gate.NewAdaptive(pace.PerHour(1), &gate.AdaptiveOptions{Burst: 2})
	g := gate.All(a, gate.Of(&waits{calls: 1, err: full}))
	for range 3 {
		if _, ok := g.TryEnter(1); ok {
			t.Fatal("let in, although a member refuses")
		}
		if _, err := g.Enter(context.Background(), 2); err != full {
			t.Fatalf("%v, want %v", err, full)
		}
	}
	if _, ok := a.TryEnter(2); !ok {
		t.Error("the refused entries took tokens")
	}
}
