package queue

import (
	"context"
	"testing"
)

// A head that reserves keeps its place when entries of its set are corrected.
func TestInsistsThroughSettle(t *testing.T) {
	both(t, func(n *bench) {
		e, _, b, f := reserves(n, &n.door().Queue)
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

// A head that reserves, and is then kept back by a limit aside, is in no other's way.
func TestInsistsNotAside(t *testing.T) {
	both(t, func(n *bench) {
		rate := n.bucket(1, 100)
		rate.aside = true
		e, a, b, f := reserves(n, &rate.Queue)
		f.leave(1)
		a.leave(1)
		n.waits("no token", e)
		if !try(set(&a.Queue), 1) || !try(set(&b.Queue), 1) {
			n.Error("it reserves though a limit aside keeps it back")
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

// The entry behind a head that reserved is parked at one limit alone, and in no other's way elsewhere.
func TestBehindInsisting(t *testing.T) {
	both(t, func(n *bench) {
		e, a, b, f := reserves(n, &n.door().Queue)
		behind := n.enter(e.set, 1, 0)
		e.cancel()
		n.Settle()
		if !try(set(&b.Queue), 1) {
			n.Error("it is in the way where it is not parked")
		}
		a.leave(1)
		n.waits("the other slot is taken", behind)
		b.leave(1)
		n.Settle()
		n.want("both are free", 0, behind)
		f.leave(1)
	})
}

// A head that a limit aside has kept back is as patient as a new one.
func TestPatientAfterAside(t *testing.T) {
	both(t, func(n *bench) {
		l := [2]*slots{n.slots(1), n.slots(1)}
		alone := [2]*Set{set(&l[0].Queue), set(&l[1].Queue)}
		hold := n.door()
		try(alone[0], 1)
		e := n.enter(set(&hold.Queue, &l[0].Queue, &l[1].Queue), 1, 0)
		at := 0 // where the head is parked
		bounce := func() {
			if !try(alone[1-at], 1) {
				n.Fatal("it reserves")
			}
			l[at].leave(1)
			at = 1 - at
		}
		for range maxOvertakes - 1 {
			bounce()
		}
		hold.shut(10)
		l[at].leave(1) // sends it to the hold
		try(alone[at], 1)
		n.Advance(10) // and back
		for range maxOvertakes - 1 {
			bounce()
		}
		l[at].leave(1)
		n.Settle()
		n.want("all free", 10, e)
	})
}

// Of two groups the older one stays, in whatever order they are joined. Locks are taken in that order, too.
func TestJoinKeepsTheOlder(t *testing.T) {
	both(t, func(n *bench) {
		for _, swapped := range []bool{false, true} {
			older, newer := &n.slots(1).Queue, &n.slots(1).Queue
			want := older.root()
			if swapped {
				Join(newer, older)
			} else {
				Join(older, newer)
			}
			if newer.root() != want {
				n.Errorf("swapped %v: the newer group stays", swapped)
			}
		}
	})
}

// It is not known when a limit without a clock has room, so an entry with a deadline waits there.
func TestDeadlineWithoutClock(t *testing.T) {
	both(t, func(n *bench) {
		l, rate := n.slots(1), n.bucket(1, 1)
		l.pass()
		s := set(&l.Queue, &rate.Queue)
		first, e := n.enter(s, 1, 100), n.enter(s, 1, 50)
		n.waits("no slot, and nothing known", first, e)
		n.Advance(40)
		l.leave(1)
		n.Settle()
		n.want("a slot", 40, first)
		l.leave(1)
		n.Settle()
		n.waits("a slot, and no token", e)
		n.Advance(1)
		n.want("a token", 41, e)
	})
}

// A queue counts all entries of the sets that have their head there.
func TestInfoCountsWaiters(t *testing.T) {
	both(t, func(n *bench) {
		l, o := n.slots(1), n.slots(1)
		l.pass()
		both, alone := set(&l.Queue, &o.Queue), set(&l.Queue)
		for range 2 {
			n.enter(both, 1, 0)
			n.enter(alone, 1, 0)
		}
		e := n.enter(both, 1, 0)
		count := func(l *slots) (c int) {
			l.View(func(now int64) { c = l.Info(now).Waiting })
			return c
		}
		if a, b := count(l), count(o); a != 5 || b != 0 {
			n.Errorf("%d and %d wait, want 5 and 0", a, b)
		}
		e.cancel()
		n.Settle()
		if a := count(l); a != 4 {
			n.Errorf("%d wait, want 4", a)
		}
		for range 4 {
			l.leave(1)
			o.leave(1)
			n.Settle()
		}
		if a := count(l); a != 0 {
			n.Errorf("%d wait when all were admitted", a)
		}
	})
}

// A limit that is just enough for its claim is not the one of the error, however small.
func TestTooMuchElsewhere(t *testing.T) {
	both(t, func(n *bench) {
		s := set(&n.slots(2).Queue, &n.slots(5).Queue)
		_, err := s.Enter(context.Background(), []Claim{{Cost: 2}, {Cost: 6}}, nil)
		if e := err.(*TooMuch); *e != (TooMuch{1, 5, 6}) {
			n.Errorf("%+v, want the second limit", e)
		}
	})
}

// A head counts from the instant at which another entry made room for it, not from before.
func TestCountsFromRoom(t *testing.T) {
	both(t, func(n *bench) {
		l, rate := n.slots(1), n.bucket(9, 10)
		l.pass()
		s := set(&l.Queue, &rate.Queue)
		first, second := n.enter(s, 1, 0), n.enter(s, 1, 0)
		for i, e := range []*entry{first, second} {
			n.Advance(30)
			l.leave(1)
			n.Settle()
			n.want("a slot", n.Now(), e)
			if since := n.since(rate.takes[i].since); since != n.Now() {
				n.Errorf("entry %d counts from %v, want %v", i, since, n.Now())
			}
		}
	})
}

// An alarm that rings too early, by the clock of the limit, is set to the same instant once more.
func TestAlarmTooEarly(t *testing.T) {
	skew(t, func(n *bench, clk *skewed) {
		rate := n.bucket(1, 100)
		s := set(&rate.Queue)
		try(s, 1)
		e := n.enter(s, 1, 0)
		clk.ahead.Add(-30)
		n.Advance(100)
		n.waits("no token by that clock", e)
		n.Advance(30)
		n.want("a token", 130, e)
	})
}

// An entry is refused at once if a limit that goes by the sum of costs has no token for it in time.
func TestTooLateForSum(t *testing.T) {
	both(t, func(n *bench) {
		rate := n.bucket(1, 100)
		s := set(&n.slots(9).Queue, &rate.Queue)
		try(s, 1)
		in := n.enter(s, 1, 101)
		late := n.enter(s, 1, 200)
		if e, ok := late.err.(*TooLate); !ok || *e != (TooLate{1, 200}) {
			n.Errorf("%v, want the wait of 200 at the second limit", late.err)
		}
		n.Advance(100)
		n.want("a token", 100, in)
	})
}

// When a head is refused because an earlier entry of another set took its tokens, the entry behind it is looked at.
func TestBehindRefused(t *testing.T) {
	both(t, func(n *bench) {
		l, rate := n.slots(1), n.bucket(2, 100)
		l.pass()
		s := set(&rate.Queue)
		beside := set(&rate.Queue, &l.Queue)
		try(s, 2)
		earlier := n.enter(beside, 1, 0) // kept back by l
		heavy, light := n.enter(s, 2, 250), n.enter(s, 1, 0)
		n.Advance(50)
		l.leave(1)
		n.Settle()
		n.waits("no token", earlier, heavy, light)
		n.Advance(50)
		n.want("a token", 100, earlier)
		if e, ok := heavy.err.(*TooLate); !ok || *e != (TooLate{0, 200}) {
			n.Errorf("the heavy entry: %v, want a wait of 200", heavy.err)
		}
		n.Advance(100)
		n.want("the next token", 200, light)
	})
}
