package gatetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// idle lets n times the span pass in which the whole capacity comes back, also on the real clock.
func (t *trial) idle(n int) {
	d := time.Duration(n*t.s.Capacity) * t.s.Back
	if t.s.exact() {
		t.s.Advance(d)
	} else {
		time.Sleep(d)
	}
}

func wakeUp(t *trial) {
	t.fill(t.s.Capacity)
	for i := range 3 {
		e := t.arrive(t.ctx, 1)
		if !t.waits(e, "on a full gate") {
			continue
		}
		t.leaveOne()
		t.in(e, fmt.Sprintf("one token being back, %d entries after the gate was full", i))
	}
	t.whole("after entries that waited")
}

// before makes sure that early was admitted before late. Both came when the gate had granted spent
// tokens, and both don't fit at once.
func (t *trial) before(early, late *entry, spent int, why string) {
	t.Helper()
	if !late.returned() || late.err != nil {
		return
	}
	if early.returned() && early.err == nil && (t.s.Slots || !early.at.After(late.at)) {
		return
	}
	if !t.s.exact() && !t.s.Slots {
		// The goroutine of early may only have returned late. It is a mistake of the gate if time
		// had not brought enough for both.
		if spent+early.cost+late.cost <= t.s.Most(late.at.Sub(t.began)) {
			return
		}
	}
	t.Fatalf("%s: the entry of cost %d that came later was let in before the one of cost %d that waited", why, late.cost, early.cost)
}

func order(t *trial) {
	heavy := t.s.heavy()
	if 2*heavy <= t.s.Capacity {
		return // several fit at once, so the order in which they return says nothing
	}
	t.fill(t.s.Capacity)
	var line []*entry
	for range 4 {
		line = append(line, t.arrive(t.ctx, heavy))
	}
	for i, e := range line {
		why := fmt.Sprintf("%d of %d in line having been let in", i, len(line))
		for range t.s.Capacity {
			if len(t.held) > 0 {
				t.leave(t.held[0])
			}
			t.elapse(t.s.Back)
			t.rest()
			spent := t.spent
			for _, late := range line[i+1:] {
				t.before(e, late, spent, why)
				spent += late.cost
			}
		}
		t.in(e, why)
	}
	t.whole("after a line of heavy entries")
}

func overtaking(t *trial) {
	heavy := t.s.heavy()
	if heavy < 2 {
		return
	}
	// One token less is free than the heavy entry needs.
	t.fill(t.s.Capacity - heavy + 1)
	spent := t.spent
	first := t.arrive(t.ctx, heavy)
	if !t.waits(first, "with too few tokens free") {
		return
	}
	const why = "behind a heavy entry, with tokens free for a light one"
	light := []*entry{t.arrive(t.ctx, 1), t.arrive(t.ctx, 1)}
	for _, l := range light {
		t.before(first, l, spent, why)
	}
	if t.rest(); !first.returned() && t.try(1, why) {
		if t.s.exact() || t.s.Slots || t.spent+heavy > t.s.Most(t.latest.Sub(t.began)) {
			t.Fatalf("%s: TryEnter(1) was let in", why)
		}
	}
	for i := range heavy {
		if len(t.held) > 0 && t.held[0] != first {
			t.leave(t.held[0])
		}
		t.elapse(t.s.Back)
		t.rest()
		if heavy == t.s.Capacity {
			for _, l := range light {
				t.before(first, l, spent, fmt.Sprintf("behind a heavy entry, %d more tokens being back", i+1))
			}
		}
	}
	t.in(first, "at the head of the line, all tokens being back")
	for _, l := range light {
		t.leaveAll()
		t.elapse(t.s.Back)
		t.in(l, "behind a heavy entry that is in")
	}
	t.whole("after a heavy entry and light ones")
}

// cancelled is the check for the entry at the given place among three that wait.
func cancelled(place int) func(*trial) {
	return func(t *trial) {
		t.othersMoveUp(place)
		if t.s.heavy() >= 2 {
			t.fresh()
			t.heavyMakeRoom(place)
		}
	}
}

// three starts three entries, one after the other. The one at the given place has the context.
func (t *trial) three(ctx context.Context, place int) (line []*entry) {
	for i := range 3 {
		if i == place {
			line = append(line, t.arrive(ctx, 1))
		} else {
			line = append(line, t.arrive(t.ctx, 1))
		}
	}
	return line
}

// othersMoveUp has the entry at the given place, of three that wait, give up. It makes sure that
// the other two are admitted as if that one had not come.
func (t *trial) othersMoveUp(place int) {
	names := []string{"first", "second", "last"}
	why := "the " + names[place] + " of three that waited having given up"
	t.fill(t.s.Capacity)
	ctx, quit := t.quitter()
	line := t.three(ctx, place)
	quit()
	others := slices.Delete(slices.Clone(line), place, place+1)
	if t.s.exact() || t.s.Slots {
		t.givesUp(line[place], why)
		for _, e := range others {
			t.waits(e, why)
		}
	}
	for _, e := range others {
		if len(t.held) > 0 {
			t.leave(t.held[0])
		}
		t.elapse(t.s.Back)
		t.in(e, why+", one token being back")
	}
	t.full(why + ", and the others having been let in")
	t.whole(why)
}

// heavyMakeRoom has three heavy entries give up, beginning with the one at the given place. It
// makes sure that the light one behind them, which fits, is admitted then.
func (t *trial) heavyMakeRoom(place int) {
	heavy := t.s.heavy()
	t.fill(t.s.Capacity - heavy + 1)
	var line []*entry
	var quits []func()
	for range 3 {
		ctx, quit := t.quitter()
		line, quits = append(line, t.arrive(ctx, heavy)), append(quits, quit)
	}
	light := t.arrive(t.ctx, 1)
	for i := range line {
		i = (place + i) % len(line)
		quits[i]()
		if t.s.exact() || t.s.Slots {
			t.givesUp(line[i], "a heavy entry that gives up")
		}
	}
	t.in(light, "with a token free and all heavy entries before it having given up")
	if t.s.exact() {
		for i := 2; i < heavy; i++ {
			t.mustTry(1, "all heavy entries having given up")
		}
		t.full("all heavy entries having given up")
	}
	t.whole("after heavy entries that gave up")
}

func cancelledMany(t *trial) {
	const many = 50
	t.fill(t.s.Capacity)
	ctx, quit := t.quitter()
	for i := range many {
		t.start(ctx, 1+i%t.s.heavy())
	}
	t.rest()
	last := t.arrive(t.ctx, 1)
	quit()
	if t.s.exact() || t.s.Slots {
		for _, e := range t.open {
			if e != last {
				t.givesUp(e, "an entry that gives up")
			}
		}
		t.waits(last, "on a full gate")
	} else {
		for _, e := range t.open {
			if e != last && !t.until(e.returned) {
				t.Fatalf("Enter(ctx, %d) still waits after its context has ended", e.cost)
			}
			if e != last && e.err == nil {
				t.in(e, "on a full gate") // time may have admitted it
			}
		}
	}
	t.leaveOne()
	t.in(last, fmt.Sprintf("one token being back, and %d that waited before it having given up", many))
	t.whole(fmt.Sprintf("after %d entries that gave up", many))
}

func photoFinish(t *trial) {
	if t.s.Slots && t.s.Back == 0 {
		for i := range 30 {
			t.photoFinish(func(quit func()) {
				// Which comes first is left to chance, but not every time.
				one := t.held[0]
				t.held, t.inUse = t.held[1:], t.inUse-1
				switch i % 3 {
				case 0:
					one.pass.Leave(nil)
					quit()
				case 1:
					quit()
					one.pass.Leave(nil)
				case 2:
					go one.pass.Leave(nil)
					quit()
				}
			}, nil)
		}
		return
	}
	// The alarm that was set first may go off first.
	meet := func(quit func()) {
		t.leaveAll()
		t.after(t.s.Back, quit)
	}
	for range 4 {
		t.photoFinish(meet, nil)
		t.photoFinish(nil, meet)
	}
}

// photoFinish ends an entry's context in the instant of its grant. late or early arranges that:
// late is called when the entry waits, early before it comes.
func (t *trial) photoFinish(late, early func(quit func())) {
	t.Helper()
	t.fresh()
	t.fill(t.s.Capacity)
	ctx, quit := t.quitter()
	if early != nil {
		early(quit)
	}
	e := t.arrive(ctx, 1)
	if late != nil {
		late(quit)
	}
	t.elapse(t.s.Back)
	if !t.until(e.returned) {
		t.Fatalf("Enter(ctx, 1) still waits after its context has ended")
	}
	why := "an entry having got in in the instant in which its context ended"
	if e.err == nil {
		t.in(e, "in the instant of its grant")
	} else {
		why = "an entry having given up in the instant of its grant"
		t.givesUp(e, "in the instant of its grant")
		t.mustTry(1, why)
	}
	t.full(why)
	t.whole(why)
}

func allOrNothing(t *trial) {
	if !t.s.Slots || t.s.Back == 0 {
		return // a gate with only one of the two has nothing to check
	}
	t.fill(t.s.Capacity)
	t.idle(1)
	for range 2 * t.s.Capacity {
		t.full("with every slot taken, and every token back")
	}
	ctx, quit := t.quitter()
	var line []*entry
	for range 2 * t.s.Capacity {
		line = append(line, t.arrive(ctx, 1))
	}
	quit()
	for _, e := range line {
		t.givesUp(e, "with every slot taken, and every token back")
	}
	t.leaveAll()
	for i := range t.s.Capacity {
		if !t.try(1, "every slot being free again") {
			t.Fatalf("every slot being free, and every token back, only %d of %d can be taken after entries that were refused or gave up", i, t.s.Capacity)
		}
	}
	t.whole("after entries that had tokens and no slot")
}

func deadline(t *trial) {
	t.fill(t.s.Capacity)
	e := t.arrive(t.limit(time.Hour+2*t.s.Back), 1)
	t.waits(e, "on a full gate")
	t.leaveOne()
	t.in(e, "one token being back long before the deadline")
	t.whole("after a deadline that was met")

	d := t.s.tooSoon()
	if t.s.Back == 0 {
		d = 10 * time.Millisecond
	}
	for tries := 5; ; tries-- {
		t.fresh()
		t.fill(t.s.Capacity)
		end := t.now().Add(d)
		ctx := t.limit(d)
		e := t.arrive(ctx, 1)
		why := fmt.Sprintf("on a full gate with a deadline in %v", d)
		if !t.s.exact() && tries > 1 && t.until(e.returned) && e.panicked == nil && e.err == nil {
			t.in(e, why)
			continue // the machine may have stalled until a token was back
		}
		if !t.s.Foresees {
			if t.s.exact() { // on the real clock the deadline may have passed by now
				t.waits(e, why+", before that")
			}
			t.elapse(d)
			err := t.fails(e, why)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: Enter(ctx, 1) returned the error %q, want context.DeadlineExceeded", why, err)
			}
			if t.now().Before(end) {
				t.Fatalf("%s: Enter(ctx, 1) returned before that", why)
			}
			break
		}
		err := t.fails(e, why+" that can't be met")
		var known *gate.DeadlineError
		switch {
		case !errors.Is(err, context.DeadlineExceeded):
			t.Fatalf("%s: Enter(ctx, 1) returned the error %q, which does not match context.DeadlineExceeded", why, err)
		case errors.As(err, &known):
			if t.s.exact() && (known.Wait < d || known.Wait > t.s.Back) || known.Wait <= 0 {
				t.Errorf("%s: the *gate.DeadlineError gives a wait of %v, want one of %v to %v", why, known.Wait, d, t.s.Back)
			}
		case !t.s.exact() && tries > 1 && !t.now().Before(end):
			continue // the deadline may have passed before the entry came
		default:
			t.Fatalf("%s: Enter(ctx, 1) returned the error %q, want a *gate.DeadlineError", why, err)
		}
		break
	}
	const why = "after a deadline that was not met"
	t.full(why)
	t.leaveAll()
	t.elapse(t.s.Back)
	t.mustTry(1, why)
	t.whole(why)
}
