package gatetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// errGaveUp is the cause with which the suite ends the contexts of entries that give up.
var errGaveUp = errors.New("gatetest: gave up")

// patience is how long the suite waits on the real clock for what must happen.
const patience = 10 * time.Second

// trial is one run of a check. It records what the gate has granted, and which passes have been
// left. All of it runs in the goroutine of the check, but for the goroutines of call.
type trial struct {
	testing.TB
	s Subject

	g    gate.Gate
	ctx  context.Context // of all entries, but for those that give up earlier
	end  context.CancelFunc
	open []*entry // all entries that were started

	began  time.Time // just before the first entry
	latest time.Time // the latest grant
	spent  int       // tokens granted since began
	inUse  int       // tokens of passes that have not been left
	held   []*entry  // entries with a pass that has not been left, oldest first
}

// fresh goes on with a new gate.
func (t *trial) fresh() {
	t.Helper()
	t.finish()
	t.ctx, t.end = context.WithCancel(context.Background())
	t.g = t.s.New(t)
	if t.g == nil {
		t.Fatal("New returned no gate")
	}
	t.open, t.held, t.inUse = nil, nil, 0
	t.restart()
}

// restart forgets what was granted: the gate is as good as new.
func (t *trial) restart() { t.began, t.latest, t.spent = time.Time{}, time.Time{}, 0 }

// finish ends the context of all entries and waits for them.
func (t *trial) finish() {
	t.Helper()
	if t.g == nil {
		return
	}
	t.end()
	if t.s.exact() {
		t.s.Advance(0)
	}
	for _, e := range t.open {
		if !t.s.exact() {
			select {
			case <-e.done:
			case <-time.After(patience):
			}
		}
		switch {
		case !e.returned():
			t.Errorf("Enter(ctx, %d) still waits after its context has ended", e.cost)
		case !e.seen && e.err == nil && e.panicked == nil:
			e.pass.Leave(nil)
		}
	}
	for _, e := range t.held {
		e.pass.Leave(nil)
	}
	t.open, t.held, t.inUse, t.g = nil, nil, 0, nil
}

func (t *trial) now() time.Time {
	if t.s.Clock != nil {
		return t.s.Clock.Now()
	}
	return time.Now()
}

// after calls f when d has passed on the gate's clock.
func (t *trial) after(d time.Duration, f func()) {
	if t.s.Clock != nil {
		t.s.Clock.AfterFunc(d, f)
		return
	}
	time.AfterFunc(d, f)
}

// rest lets all other goroutines run until they are blocked, without any time passing.
func (t *trial) rest() {
	if t.s.exact() {
		t.s.Advance(0)
		return
	}
	time.Sleep(time.Millisecond)
}

// elapse lets d pass, where time passes only when the suite says so. On the real clock it returns
// at once: there the suite waits for what must happen.
func (t *trial) elapse(d time.Duration) {
	if t.s.exact() {
		t.s.Advance(d)
	}
}

// until waits for ok. In exact time ok must be true by now.
func (t *trial) until(ok func() bool) bool {
	if t.s.exact() {
		t.rest()
		return ok()
	}
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond / 5) {
		if ok() {
			return true
		}
		if time.Now().After(limit) {
			return false
		}
	}
}

// over returns why the gate could not have granted that many tokens more, or "" if it could.
func (t *trial) over(extra int) string {
	if t.s.Slots && t.inUse+extra > t.s.Capacity {
		return fmt.Sprintf("%d tokens of %d were in use already", t.inUse, t.s.Capacity)
	}
	if t.s.Most != nil {
		w := t.latest.Sub(t.began)
		if most := t.s.Most(w); t.spent+extra > most {
			return fmt.Sprintf("%d tokens had gone already within %v, where at most %d may go", t.spent, w, most)
		}
	}
	return ""
}

// begin records that an entry is about to be made.
func (t *trial) begin() {
	if t.began.IsZero() {
		t.began = t.now()
	}
}

// book records a grant, and fails if it is one too many.
func (t *trial) book(e *entry, call, why string) {
	t.Helper()
	if e.at.After(t.latest) {
		t.latest = e.at
	}
	over := t.over(e.cost)
	e.seen = true
	t.held = append(t.held, e)
	t.spent += e.cost
	t.inUse += e.cost
	if over != "" {
		t.Fatalf("%s: %s was let in, although %s", why, call, over)
	}
}

// try calls TryEnter and reports whether it was admitted. One too many fails.
func (t *trial) try(cost int, why string) bool {
	t.Helper()
	t.begin()
	p, ok := t.g.TryEnter(cost)
	if ok {
		t.book(&entry{cost: cost, pass: p, at: t.now()}, fmt.Sprintf("TryEnter(%d)", cost), why)
	}
	return ok
}

// mustTry is try where there must be tokens: now in exact time, or else soon.
func (t *trial) mustTry(cost int, why string) {
	t.Helper()
	if !t.until(func() bool { return t.try(cost, why) }) {
		t.Fatalf("%s: TryEnter(%d) was refused", why, cost)
	}
}

// fill takes n tokens, one by one, of a gate that has them.
func (t *trial) fill(n int) {
	t.Helper()
	for i := range n {
		if !t.try(1, "on a new gate") {
			t.Fatalf("a new gate for %d tokens refused TryEnter(1) after %d", t.s.Capacity, i)
		}
	}
}

// full makes sure that no token is free. On the real clock, time may have brought one.
func (t *trial) full(why string) {
	t.Helper()
	t.try(1, why)
}

// whole makes sure that the whole capacity is back, and no more, after all passes were left and
// time has passed.
func (t *trial) whole(why string) {
	t.Helper()
	t.leaveAll()
	if t.s.exact() {
		t.elapse(t.s.Back * time.Duration(t.s.Capacity))
		t.restart()
	}
	for i := range t.s.Capacity {
		if !t.until(func() bool { return t.try(1, why) }) {
			t.Fatalf("%s: only %d tokens of %d are back after all entries have left", why, i, t.s.Capacity)
		}
	}
	t.full(why + ", and all tokens being back and taken")
	t.leaveAll()
}

// leave leaves with the pass of e.
func (t *trial) leave(e *entry) {
	t.held = slices.DeleteFunc(t.held, func(h *entry) bool { return h == e })
	t.inUse -= e.cost
	e.pass.Leave(nil)
}

// leaveOne leaves with the oldest pass, and lets the time pass in which a token comes back.
func (t *trial) leaveOne() {
	t.leave(t.held[0])
	t.elapse(t.s.Back)
}

func (t *trial) leaveAll() {
	for len(t.held) > 0 {
		t.leave(t.held[0])
	}
}

// settle settles the entry for actual tokens.
func (t *trial) settle(e *entry, actual int) {
	t.spent += actual - e.cost
	t.inUse += actual - e.cost
	e.cost = actual
	e.pass.Settle(actual)
}

// limited is a context with a deadline on the gate's clock.
type limited struct {
	context.Context
	at time.Time
}

func (l limited) Deadline() (time.Time, bool) { return l.at, true }

func (l limited) Err() error {
	if l.Context.Err() != nil && context.Cause(l.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return l.Context.Err()
}

// limit returns a context that ends when d has passed on the gate's clock.
func (t *trial) limit(d time.Duration) context.Context {
	at := t.now().Add(d)
	if t.s.Clock == nil {
		ctx, cancel := context.WithDeadline(t.ctx, at)
		end := t.end
		t.end = func() { cancel(); end() }
		return ctx
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	late := func() { cancel(context.DeadlineExceeded) }
	if d <= 0 {
		late()
	} else {
		t.s.Clock.AfterFunc(d, late)
	}
	return limited{ctx, at}
}
