package gatetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/escapement-go/escapement/gate"
)

func capacity(t *trial) {
	t.fill(t.s.Capacity)
	t.full("on a full gate")

	t.fresh()
	for i := range t.s.Capacity {
		t.in(t.start(t.ctx, 1), fmt.Sprintf("on a new gate for %d tokens of which %d are taken", t.s.Capacity, i))
	}
	t.waits(t.start(t.ctx, 1), "on a full gate")

	t.fresh()
	heavy := t.s.heavy()
	t.in(t.start(t.ctx, heavy), "on a new gate")
	for i := range t.s.Capacity - heavy {
		if !t.try(1, "after a heavy entry") {
			t.Fatalf("TryEnter(1) was refused with %d tokens of %d taken", heavy+i, t.s.Capacity)
		}
	}
	t.full("after a heavy entry")
}

func idleness(t *trial) {
	t.fill(t.s.Capacity)
	t.leaveAll()
	t.idle(3)
	t.restart()
	for i := range t.s.Capacity {
		if !t.try(1, "after idling") {
			t.Fatalf("after idling TryEnter(1) was refused with %d tokens of %d taken", i, t.s.Capacity)
		}
	}
	t.full("after idling, and all tokens being taken")
}

func refusedTry(t *trial) {
	const often = 100
	if t.s.heavy() > 1 {
		t.fill(t.s.Capacity - 1)
		for range often {
			if t.try(2, "with one token free") {
				return // on the real clock, time may have brought one more
			}
		}
		if !t.try(1, "with one token free") {
			t.Fatalf("the one token that was free is gone after %d refused calls of TryEnter(2)", often)
		}
		t.fresh()
	}
	t.fill(t.s.Capacity)
	for range often {
		t.full("on a full gate")
	}
	why := fmt.Sprintf("one token being back after %d refused calls of TryEnter(1)", often)
	t.leaveOne()
	t.mustTry(1, why)
	t.whole(why)
}

func refusedPass(t *trial) {
	use := func(p gate.Pass) {
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("a pass that stands for nothing panics: %v", v)
			}
		}()
		p.Settle(0)
		p.Settle(t.s.Capacity + 5)
		p.Leave(nil)
		p.Leave(errGaveUp)
	}
	t.fill(t.s.Capacity)
	use(gate.Pass{})
	t.full("after the zero Pass was settled and left")

	t.begin()
	if p, ok := t.g.TryEnter(1); !ok {
		use(p)
	} else {
		t.book(&entry{cost: 1, pass: p, at: t.now()}, "TryEnter(1)", "on a full gate")
	}
	t.full("after the pass of a refused TryEnter was settled and left")

	ctx, quit := t.quitter()
	quit()
	e := t.start(ctx, 1)
	t.givesUp(e, "with a done context on a full gate")
	use(e.pass)
	t.full("after the pass of a failed Enter was settled and left")
	t.whole("after passes that stand for nothing were left")
}

func doneContext(t *trial) {
	causes := []struct {
		name  string
		begin func() context.Context
		want  error
	}{
		{"a context cancelled with a cause", func() context.Context {
			ctx, quit := t.quitter()
			quit()
			return ctx
		}, errGaveUp},
		{"a cancelled context", func() context.Context {
			ctx, cancel := context.WithCancel(t.ctx)
			cancel()
			return ctx
		}, context.Canceled},
		{"a deadline in the past", func() context.Context { return t.limit(-1) }, context.DeadlineExceeded},
	}
	// Often, because a select between the two is right in half of the cases.
	const often = 20
	for _, c := range causes {
		for range often {
			e := t.start(c.begin(), 1)
			if err := t.fails(e, "with "+c.name+" and a free token"); !errors.Is(err, c.want) {
				t.Fatalf("with %s: Enter(ctx, 1) returned the error %q, want %q", c.name, err, c.want)
			}
		}
	}
	for i := range t.s.Capacity {
		if !t.try(1, "after entries with a done context") {
			t.Fatalf("only %d tokens of %d are there after entries with a done context", i, t.s.Capacity)
		}
	}
	for _, c := range causes {
		e := t.start(c.begin(), 1)
		if err := t.fails(e, "with "+c.name+" on a full gate"); !errors.Is(err, c.want) {
			t.Fatalf("with %s on a full gate: Enter(ctx, 1) returned the error %q, want %q", c.name, err, c.want)
		}
	}
	t.whole("after entries with a done context")
}

func tooCostly(t *trial) {
	calls := func(when string) {
		for _, cost := range []int{t.s.heavy() + 1, math.MaxInt} {
			err := t.fails(t.start(t.ctx, cost), when)
			var capacity *gate.CapacityError
			if !errors.As(err, &capacity) {
				t.Fatalf("%s: Enter(ctx, %d) returned the error %q, want a *gate.CapacityError", when, cost, err)
			}
			if capacity.Cost != cost || capacity.Capacity != t.s.heavy() {
				t.Errorf("%s: Enter(ctx, %d) returned %+v, want the cost of %d and the capacity of %d", when, cost, *capacity, cost, t.s.heavy())
			}
			if t.try(cost, when) {
				t.Fatalf("%s: TryEnter(%d) was let in, where %d is the highest cost", when, cost, t.s.heavy())
			}
		}
	}
	calls("on a new gate")
	for i := range t.s.Capacity {
		if !t.try(1, "after entries that were too costly") {
			t.Fatalf("only %d tokens of %d are there after entries that were too costly", i, t.s.Capacity)
		}
	}
	calls("on a full gate")
	t.full("after entries that were too costly")
	e := t.arrive(t.ctx, 1)
	calls("behind an entry that waits")
	t.leaveOne()
	t.in(e, "one token being back")
	t.whole("after entries that were too costly")
}

func misuse(t *trial) {
	g := t.g
	var none context.Context
	calls := func(when string) {
		for _, c := range []struct {
			name string
			f    func() (gate.Pass, error)
		}{
			{"Enter(ctx, 0)", func() (gate.Pass, error) { return g.Enter(t.ctx, 0) }},
			{"Enter(ctx, -1)", func() (gate.Pass, error) { return g.Enter(t.ctx, -1) }},
			{"Enter(nil, 1)", func() (gate.Pass, error) { return g.Enter(none, 1) }},
			{"TryEnter(0)", func() (gate.Pass, error) { p, _ := g.TryEnter(0); return p, nil }},
			{"TryEnter(-1)", func() (gate.Pass, error) { p, _ := g.TryEnter(-1); return p, nil }},
			{"TryEnter of the lowest int", func() (gate.Pass, error) { p, _ := g.TryEnter(math.MinInt); return p, nil }},
		} {
			e := t.call(1, c.f)
			if !t.until(e.returned) {
				t.Fatalf("%s: %s waits, want a panic", when, c.name)
			}
			if e.seen = true; e.panicked == nil {
				t.Errorf("%s: %s did not panic", when, c.name)
			}
		}
	}
	calls("on a new gate")
	for i := range t.s.Capacity {
		if !t.try(1, "after misuse") {
			t.Fatalf("only %d tokens of %d are there after misuse", i, t.s.Capacity)
		}
	}
	calls("on a full gate")
	t.full("after misuse")
	t.whole("after misuse")
}

func doFails(t *trial) {
	failure := errors.New("gatetest: the work failed")
	g, ctx := t.g, t.ctx
	for i := range 2*t.s.Capacity + 1 {
		why := fmt.Sprintf("after Do was left with an error %d times", i)
		called := false
		e := t.call(1, func() (gate.Pass, error) {
			return gate.Pass{}, gate.Do(ctx, g, 1, func(context.Context) error { called = true; return failure })
		})
		t.rest()
		if !e.returned() {
			t.elapse(t.s.Back)
		}
		if err := t.fails(e, why); err != failure || !called {
			t.Fatalf("%s: Do returned the error %v, want the work's own", why, err)
		}
	}
	t.whole("after Do was left with errors")

	dead, quit := t.quitter()
	quit()
	e := t.call(1, func() (gate.Pass, error) {
		return gate.Pass{}, gate.Do(dead, g, 1, func(context.Context) error { return failure })
	})
	t.givesUp(e, "Do with a done context")
}

func doPanics(t *trial) {
	g, ctx := t.g, t.ctx
	for i := range 2*t.s.Capacity + 1 {
		ends := i%3 == 2
		why := fmt.Sprintf("after Do was left by a panic or runtime.Goexit %d times", i)
		e := t.call(1, func() (gate.Pass, error) {
			return gate.Pass{}, gate.Do(ctx, g, 1, func(context.Context) error {
				if ends {
					runtime.Goexit()
				}
				panic(errGaveUp)
			})
		})
		t.rest()
		if !e.returned() {
			t.elapse(t.s.Back)
		}
		if !t.until(e.returned) {
			t.Fatalf("%s: Do still waits", why)
		}
		if !ends && e.panicked != errGaveUp {
			t.Fatalf("%s: Do panicked with %v, returned the error %v, want the work's own panic", why, e.panicked, e.err)
		}
		e.seen = true
	}
	t.whole("after Do was left by panics")
}

func leftTwice(t *trial) {
	t.fill(t.s.Capacity)
	first := t.held[0]
	t.leave(first)
	func() {
		// A gate that notices may panic.
		defer func() { _ = recover() }()
		first.pass.Leave(nil)
	}()
	t.elapse(t.s.Back)
	why := "after one pass was left twice"
	t.mustTry(1, why)
	t.full(why)
	t.whole(why)
}
