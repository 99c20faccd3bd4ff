package queue

import "testing"

// A head that insists keeps its place when entries of its set are corrected.
func TestInsistsThroughSettle(t *testing.T) {
	both(t, func(n *bench) {
		e, _, b, f := insisting(n, &n.door().Queue)
		none := claims(e.set, 0) // of an entry that came before
		for i, p := range e.set.places {
			none[i].Mark = p.q.limit.Take(n.clk.Now(), 0, 0)
		}
		e.set.Settle(none, all(none, 0))
		if try(set(&b.Queue), 1) {
			n.Error("it is overtaken after a cost was settled")
		}
		f.leave(1)
		e.cancel()
	})
}

// A head that insists, and is then kept back by a limit aside, is in no other's way.
func TestInsistsNotAside(t *testing.T) {
	both(t, func(n *bench) {
		rate := n.bucket(1, 100)
		rate.aside = true
		e, a, b, f := insisting(n, &rate.Queue)
		f.leave(1)
		a.leave(1)
		n.waits("no token", e)
		if !try(set(&a.Queue), 1) || !try(set(&b.Queue), 1) {
			n.Error("it insists though a limit aside keeps it back")
		}
		a.leave(1)
		b.leave(1)
		n.Advance(100)
		n.want("token", 100, e)
	})
}

// The limit with the least capacity is the one of the error, also if that is 0.
func TestTooMuchForNothing(t *testing.T) {
	both(t, func(n *bench) {
		err := n.enter(set(&n.slots(0).Queue, &n.slots(1).Queue), 2, 0).err
		if e := err.(*TooMuch); *e != (TooMuch{0, 0, 2}) {
			n.Errorf("%+v, want the limit of capacity 0", e)
		}
	})
}

// Entries pass without the lock again when the last one that waits has given up.
func TestThawedByCancel(t *testing.T) {
	both(t, func(n *bench) {
		l := n.slots(2)
		l.pass()
		n.enter(set(&l.Queue), 2, 0).cancel()
		n.Settle()
		if !l.pass() {
			n.Error("nothing waits, and it is frozen")
		}
	})
}

// What a limit is handed as now does not run backward, also if it has no clock.
func TestNowWithoutClock(t *testing.T) {
	both(t, func(n *bench) {
		l := n.slots(1)
		try(set(&l.Queue, &n.bucket(1, 1).Queue), 1)
		before := l.last
		l.View(func(now int64) {
			if now < before {
				n.Errorf("now runs back by %d", before-now)
			}
		})
	})
}
