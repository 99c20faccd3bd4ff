package gatetest

import (
	"errors"
	"fmt"
	"math"

	"github.com/escapement-go/escapement/gate"
)

func statsAddUp(t *trial) {
	if _, ok := gate.StatsOf(t.g); !ok {
		return // a gate need not have statistics
	}
	idle := t.stats("of a new gate").Idle
	t.addUp(0, "of a new gate")
	for i := range t.s.Capacity {
		t.fill(1)
		if got := t.stats("when entering"); got.Granted != uint64(i+1) {
			t.Errorf("%d entries count as %d granted", i+1, got.Granted)
		}
	}
	tried := uint64(t.s.Capacity)
	t.addUp(tried, "of a full gate")
	tried++
	if before := t.stats("of a full gate").Refused; !t.try(1, "on a full gate") {
		if n := t.stats("when refusing").Refused - before; n != 1 {
			t.Errorf("a refused TryEnter counts as %d refusals, want 1", n)
		}
	}
	ctx, quit := t.quitter()
	line := t.three(ctx, 1)
	if t.s.exact() || t.s.Slots {
		t.addUp(tried, "of a gate where three wait")
		quit()
		t.givesUp(line[1], "the second of three")
		t.addUp(tried, "of a gate where one of three gave up")
	}
	quit()
	t.until(t.start(ctx, 1).returned)
	if t.s.Foresees {
		t.until(t.start(t.limit(t.s.tooSoon()), 1).returned)
	}
	for _, e := range line {
		if t.rest(); !e.returned() {
			t.leaveAll()
			t.elapse(t.s.Back)
		}
		if t.until(e.returned) && e.err == nil {
			t.in(e, "with few others")
		}
	}
	t.addUp(tried, "after all that")
	t.leaveAll()
	t.idle(1)
	t.addUp(tried, "after all entries have left")
	if got := t.stats("after all entries have left"); got.Idle != idle || got.HeldFor != 0 || got.NextDue != 0 {
		t.Errorf("after all entries have left, and time has passed, the statistics are %+v, want Idle %v and nothing due, as when it was new", got, idle)
	}
}

// addUp makes sure that the statistics agree with the entries that were started and the calls of
// TryEnter.
func (t *trial) addUp(tried uint64, why string) {
	t.Helper()
	waiting, granted, refused, abandoned := t.outcomes()
	calls := uint64(len(t.open)) + tried
	got := t.stats(why)
	if n := got.Granted + got.Refused + got.Abandoned + uint64(got.Waiting); n != calls {
		t.Errorf("%s: granted, refused, abandoned and waiting are %d together, want the %d calls that were made: %+v", why, n, calls, got)
	}
	if got.Waiting != waiting || got.Abandoned != abandoned {
		t.Errorf("%s: %d wait and %d gave up, want %d and %d", why, got.Waiting, got.Abandoned, waiting, abandoned)
	}
	if got.Granted < granted || got.Refused < refused || got.Granted+got.Refused != granted+refused+tried {
		t.Errorf("%s: %d were granted and %d refused, want at least %d and %d, and %d together", why, got.Granted, got.Refused, granted, refused, granted+refused+tried)
	}
	if t.s.Slots && (got.InUse < t.inUse || t.s.Back == 0 && got.InUse > t.inUse) {
		t.Errorf("%s: %d tokens are in use, want %d", why, got.InUse, t.inUse)
	}
	if waiting > 0 && got.Idle {
		t.Errorf("%s: the gate is idle, but an entry waits", why)
	}
}

// outcomes counts the entries that were started, by their outcome.
func (t *trial) outcomes() (waiting int, granted, refused, abandoned uint64) {
	for _, e := range t.open {
		var known *gate.DeadlineError
		switch {
		case !e.returned():
			waiting++
		case e.err == nil:
			granted++
		case errors.As(e.err, &known):
			refused++
		default:
			abandoned++
		}
	}
	return waiting, granted, refused, abandoned
}

func (t *trial) stats(why string) gate.Stats {
	t.Helper()
	s, ok := gate.StatsOf(t.g)
	if !ok {
		t.Fatalf("the statistics are gone: %s", why)
	}
	return s
}

func refusalsCount(t *trial) {
	if _, ok := gate.StatsOf(t.g); !ok {
		return
	}
	once := func(what string, f func()) {
		before := t.stats("before a refusal").Refused
		f()
		if n := t.stats("after a refusal").Refused - before; n != 1 {
			t.Errorf("%s counts as %d refusals, want 1", what, n)
		}
	}
	calls := func(when string) {
		for _, cost := range []int{t.s.heavy() + 1, math.MaxInt} {
			once(fmt.Sprintf("%s: Enter(ctx, %d)", when, cost), func() { t.fails(t.start(t.ctx, cost), when) })
			once(fmt.Sprintf("%s: TryEnter(%d)", when, cost), func() { t.try(cost, when) })
		}
	}
	calls("on a new gate")
	t.fill(t.s.Capacity)
	calls("on a full gate")
	t.arrive(t.ctx, 1)
	calls("behind an entry that waits")
}
