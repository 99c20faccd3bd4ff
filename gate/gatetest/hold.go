package gatetest

import (
	"errors"
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// holder is a gate that can be held. A gate need not be one.
type holder interface{ Hold(d time.Duration) }

// hold holds the gate for d, and returns the instant before which no entry may be admitted.
func (t *trial) hold(d time.Duration) time.Time {
	end := t.now().Add(d)
	t.g.(holder).Hold(d)
	return end
}

// notBefore makes sure that the entry is admitted when the hold is over, and not before.
func (t *trial) notBefore(end time.Time, e *entry, why string) {
	t.Helper()
	t.in(e, why+", when it is over")
	if e.at.Before(end) {
		t.Fatalf("%s: Enter(ctx, %d) was let in %v before the end", why, e.cost, end.Sub(e.at))
	}
}

// closed makes sure that no entry is admitted before the end of the hold, which is the only one,
// and that one is admitted then.
func (t *trial) closed(end time.Time, why string) {
	t.Helper()
	t.begin()
	if p, ok := t.g.TryEnter(1); ok {
		now := t.now()
		t.book(&entry{cost: 1, pass: p, at: now}, "TryEnter(1)", why)
		if now.Before(end) {
			t.Fatalf("%s: TryEnter(1) was let in %v before the end", why, end.Sub(now))
		}
	}
	ctx, quit := t.quitter()
	other, e := t.arrive(ctx, 1), t.arrive(t.ctx, 1)
	quit()
	if t.s.exact() {
		t.givesUp(other, why)
	}
	if rest := end.Sub(t.now()); rest > 1 {
		t.elapse(rest - 1)
	}
	if t.s.exact() {
		t.waits(e, why)
		t.elapse(1)
	}
	t.notBefore(end, e, why)
	if t.until(other.returned); other.returned() && other.err == nil {
		t.notBefore(end, other, why)
	}
}

// aWhile is how long a hold lasts that the suite waits for: all tokens are back before it is over.
func (t *trial) aWhile() time.Duration {
	return 10*time.Millisecond + time.Duration(t.s.Capacity)*t.s.Back
}

func holdKeepsOut(t *trial) {
	if _, ok := t.g.(holder); !ok {
		return // a gate need not have it
	}
	t.closed(t.hold(t.aWhile()), "a new gate being held")
	t.whole("after a hold")

	// Entries that wait already are held as well.
	if !t.s.exact() && !t.s.Slots {
		return // the entry may be admitted before the gate can be held
	}
	t.fresh()
	t.fill(t.s.Capacity)
	e := t.arrive(t.ctx, 1)
	t.waits(e, "on a full gate")
	end := t.hold(t.aWhile())
	const why = "a full gate being held where an entry waits, and all others having left"
	t.leaveAll()
	t.elapse(t.aWhile() - 1)
	if t.s.exact() {
		t.waits(e, why)
		t.elapse(1)
	}
	t.notBefore(end, e, why)
	t.whole("after a hold of those who waited")
}

func holdIsNotShortened(t *trial) {
	if _, ok := t.g.(holder); !ok {
		return
	}
	t.hold(0)
	t.hold(-time.Hour)
	t.fill(t.s.Capacity) // neither is a hold

	t.fresh()
	end := t.hold(t.aWhile())
	for _, d := range []time.Duration{t.aWhile() / 2, 0, -1, -time.Hour} {
		t.hold(d)
	}
	t.closed(end, "a held gate having been held once more, for less")

	t.fresh()
	t.hold(t.aWhile() / 2)
	t.closed(t.hold(t.aWhile()), "a held gate having been held once more, for longer")
}

func holdAndDeadline(t *trial) {
	if _, ok := t.g.(holder); !ok {
		return
	}
	const d = 1000 * time.Hour
	foreseen := func(e *entry, why string) {
		t.Helper()
		err := t.fails(e, why)
		var known *gate.DeadlineError
		if !errors.As(err, &known) {
			t.Fatalf("%s: Enter(ctx, 1) returned the error %q, want a *gate.DeadlineError", why, err)
		}
		if known.Wait > d && t.s.exact() || known.Wait < d/2 {
			t.Errorf("%s: the *gate.DeadlineError gives a wait of %v, want one of %v", why, known.Wait, d)
		}
	}
	t.hold(d)
	foreseen(t.arrive(t.limit(d/2), 1), "on a gate that is held until after the deadline")

	t.fresh()
	t.fill(t.s.Capacity)
	e := t.arrive(t.limit(d/2), 1)
	if t.rest(); e.returned() {
		t.in(e, "on a full gate, long before the deadline") // time has admitted it
		return
	}
	t.hold(d)
	if t.rest(); !t.s.exact() && !t.s.Slots && e.returned() && e.err == nil {
		t.in(e, "on a full gate, long before the deadline")
		return
	}
	foreseen(e, "waiting at a gate that comes to be held until after the deadline")
	if t.s.exact() {
		t.elapse(d)
		t.whole("after a deadline that a hold was in the way of")
	}
}

// afterHold returns the most tokens that may go from the end of a hold on, or nil if there is no bound.
func (s *Subject) afterHold() func(time.Duration) int {
	if s.AfterHold != nil {
		return s.AfterHold
	}
	return s.Most
}

func noBurstAfterHold(t *trial) {
	if _, ok := t.g.(holder); !ok {
		return
	}
	most := t.s.afterHold()
	if most == nil {
		return // there is no bound
	}
	end := t.hold(t.aWhile())
	line := t.crowdOfOnes()
	t.elapse(t.aWhile())
	t.noBurst(end, line, most, "after a hold")
}

// crowdOfOnes are entries of cost 1, more than the gate has room for.
func (t *trial) crowdOfOnes() (line []*entry) {
	for range 2*t.s.Capacity + 2 {
		line = append(line, t.arrive(t.ctx, 1))
	}
	return line
}

// noBurst makes sure that the entries are admitted, with no more from end on than may be.
func (t *trial) noBurst(end time.Time, line []*entry, most func(time.Duration) int, why string) {
	t.Helper()
	for range line {
		if t.rest(); t.s.exact() && t.s.Slots {
			for _, e := range line {
				if e.returned() && !e.seen {
					t.in(e, why)
				}
			}
			t.leaveAll()
		}
		t.elapse(t.s.Back)
	}
	var at []time.Time
	for _, e := range line {
		if !t.s.exact() && t.s.Slots && !t.until(e.returned) {
			t.Fatalf("%s: Enter(ctx, 1) still waits", why)
		}
		t.in(e, why)
		at = append(at, e.at)
		if !t.s.exact() {
			t.leaveAll()
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i, x := range at {
		if w := x.Sub(end); i+1 > most(w) {
			t.Fatalf("%s: %d tokens went within %v of its end, where at most %d may go", why, i+1, w, most(w))
		}
	}
}

func holdInStats(t *trial) {
	if _, ok := t.g.(holder); !ok {
		return
	}
	if _, ok := gate.StatsOf(t.g); !ok {
		return
	}
	const d = 1000 * time.Hour
	if s := t.stats("of a new gate"); s.HeldFor != 0 {
		t.Errorf("a new gate is held for %v", s.HeldFor)
	}
	t.hold(d)
	s := t.stats("of a held gate")
	if s.HeldFor > d || s.HeldFor < d-time.Hour || t.s.exact() && s.HeldFor != d || s.Idle {
		t.Errorf("a gate that is held for %v has the statistics %+v", d, s)
	}
	if t.s.exact() {
		t.elapse(d)
		if s := t.stats("after a hold"); s.HeldFor != 0 {
			t.Errorf("when the hold is over the statistics are %+v", s)
		}
	}
}
