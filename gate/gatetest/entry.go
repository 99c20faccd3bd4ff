package gatetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// entry is one call of Enter or TryEnter.
type entry struct {
	cost   int
	called chan struct{} // closed just before the call
	done   chan struct{} // closed when it has returned
	seen   bool          // its outcome has been recorded

	// To be read after done.
	pass     gate.Pass
	err      error
	panicked any
	at       time.Time
}

func (e *entry) returned() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// call starts f as an entry in a goroutine of its own.
func (t *trial) call(cost int, f func() (gate.Pass, error)) *entry {
	t.begin()
	e := &entry{cost: cost, called: make(chan struct{}), done: make(chan struct{})}
	t.open = append(t.open, e)
	go func() {
		defer close(e.done)
		defer func() { e.panicked = recover() }()
		close(e.called)
		e.err = errors.New("gatetest: the goroutine of the entry ended")
		e.pass, e.err = f()
		e.at = t.now()
	}()
	return e
}

// start starts an entry.
func (t *trial) start(ctx context.Context, cost int) *entry {
	g := t.g
	return t.call(cost, func() (gate.Pass, error) { return g.Enter(ctx, cost) })
}

// arrive starts an entry and returns when it waits in the queue, or has returned.
func (t *trial) arrive(ctx context.Context, cost int) *entry {
	e := t.start(ctx, cost)
	if t.s.exact() {
		t.rest()
		return e
	}
	<-e.called
	if _, ok := gate.StatsOf(t.g); !ok {
		// Without statistics there is no way to see it wait.
		select {
		case <-e.done:
		case <-time.After(20 * time.Millisecond):
		}
		return e
	}
	for limit := time.Now().Add(patience); !e.returned() && time.Now().Before(limit); time.Sleep(time.Millisecond / 10) {
		waiting := 0
		for _, o := range t.open {
			if !o.returned() {
				waiting++
			}
		}
		if s, _ := gate.StatsOf(t.g); s.Waiting >= waiting {
			break
		}
	}
	return e
}

// quitter returns a context and a function that ends it with errGaveUp.
func (t *trial) quitter() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	return ctx, func() { cancel(errGaveUp) }
}

// in makes sure that the entry is admitted: by now in exact time, or else soon.
func (t *trial) in(e *entry, why string) {
	t.Helper()
	if !t.until(e.returned) {
		t.Fatalf("%s: Enter(ctx, %d) still waits", why, e.cost)
	}
	if e.panicked != nil {
		t.Fatalf("%s: Enter(ctx, %d) panicked: %v", why, e.cost, e.panicked)
	}
	if e.err != nil {
		t.Fatalf("%s: Enter(ctx, %d) returned the error %q", why, e.cost, e.err)
	}
	if !e.seen {
		t.book(e, fmt.Sprintf("Enter(ctx, %d)", e.cost), why)
	}
}

// waits makes sure that the entry was not admitted, and reports whether it waits. On the real
// clock, time may have admitted it.
func (t *trial) waits(e *entry, why string) bool {
	t.Helper()
	t.rest()
	if !e.returned() {
		return true
	}
	t.in(e, why)
	return false
}

// fails makes sure that the entry returns an error, by now in exact time, or else soon,
// and returns it.
func (t *trial) fails(e *entry, why string) error {
	t.Helper()
	if !t.until(e.returned) {
		t.Fatalf("%s: Enter(ctx, %d) still waits", why, e.cost)
	}
	if e.panicked != nil {
		t.Fatalf("%s: Enter(ctx, %d) panicked: %v", why, e.cost, e.panicked)
	}
	if e.err == nil {
		t.Fatalf("%s: Enter(ctx, %d) was let in", why, e.cost)
	}
	return e.err
}

// givesUp makes sure that the entry fails with errGaveUp.
func (t *trial) givesUp(e *entry, why string) {
	t.Helper()
	if err := t.fails(e, why); !errors.Is(err, errGaveUp) {
		t.Fatalf("%s: Enter(ctx, %d) returned the error %q, want the cause of its context, %q", why, e.cost, err, errGaveUp)
	}
}
