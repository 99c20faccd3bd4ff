package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/internal/timing"
)

// Each entry costs a reading of this clock, so one instant is one reading.
func TestAllLimitsAtOneInstantOrNone(t *testing.T) {
	skew(t, func(n *bench, clk *skewed) {
		rate, last, free := n.bucket(1, 10), n.window(1, 50), n.slots(1)
		s := set(&rate.Queue, &last.Queue, &free.Queue)
		free.pass()
		e := n.enter(s, 1, 0)
		if !try(set(&rate.Queue), 1) || len(last.takes) > 0 {
			n.Error("an entry that waits for a slot holds a token")
		}
		n.Advance(20)
		clk.step.Store(1)
		free.leave(1)
		n.Settle()
		n.want("slot free", 20, e)
		s.Settle(e.claims, all(e.claims, 0))
		if r, l, f := rate.fixed, last.fixed, free.fixed; r != l || l != f {
			n.Errorf("settled at %v, %v, %v", n.since(r), n.since(l), n.since(f))
		}
		r, l, f := rate.takes[1], last.takes[0], free.takes[0]
		if r.now != l.now || l.now != f.now || e.claims[0] != (Claim{0, 2}) || e.claims[2] != (Claim{0, 1}) {
			n.Errorf("taken %+v, %+v, %+v, claims %v", r, l, f, e.claims)
		}
	})
}

// A heavy head is not overtaken in its set or at its limit, and one that gives up lets others through.
func TestOrderOfArrival(t *testing.T) {
	both(t, func(n *bench) {
		l, o := n.slots(2), n.slots(9)
		alone, beside := set(&l.Queue), set(&l.Queue, &o.Queue)
		l.pass()
		heavy := n.enter(alone, 2, 0)
		a, b, c, d := n.enter(beside, 1, 0), n.enter(alone, 1, 0), n.enter(beside, 1, 0), n.enter(alone, 1, 0)
		if try(alone, 1) || try(beside, 1) || !try(set(&o.Queue), 1) {
			n.Error("an entry without waiting: want it refused at the limit that keeps others back, and nowhere else")
		}
		n.waits("behind a heavy one", heavy, a, b, c, d)
		b.cancel()
		n.Settle()
		if !errors.Is(b.err, context.Canceled) {
			n.Errorf("an entry in the middle that gives up: %v", b.err)
		}
		heavy.cancel()
		n.Settle()
		n.want("the heavy one gave up", 0, a)
		n.waits("no slot", c, d)
		l.leave(1)
		n.Settle()
		n.want("one slot more", 0, c)
		n.waits("no slot", d)
		l.leave(1)
		n.Settle()
		n.want("one slot more", 0, d)
	})
}

// A head reserves after maxOvertakes moves, but not at a limit aside, and a change of that ends it.
func TestInsists(t *testing.T) {
	both(t, func(n *bench) {
		l := [2]*slots{n.slots(1), n.slots(1)}
		hold := n.door()
		s, alone := set(&hold.Queue, &l[0].Queue, &l[1].Queue), [2]*Set{set(&l[0].Queue), set(&l[1].Queue)}
		try(alone[0], 1)
		e := n.enter(s, 1, 0)
		bounce := func(i int) int { // the head is parked at one of the two
			at := i % 2
			if !try(alone[1-at], 1) {
				n.Fatalf("overtaken %d times, it is in the way where it is not parked", i)
			}
			l[at].leave(1)
			return 1 - at
		}
		at := 0
		for i := range maxOvertakes {
			at = bounce(i)
		}
		l[at].leave(1)
		n.Settle()
		n.want("all free", 0, e)

		s.Undo(e.claims)
		try(alone[0], 1)
		e = n.enter(s, 1, 0)
		for i := range maxOvertakes {
			at = bounce(i)
		}
		behind := n.enter(alone[1-at], 1, 0)
		n.waits("it reserves", behind)
		hold.shut(30)
		n.Settle()
		n.want("it does not reserve during a hold", 0, behind)
		l[0].leave(1)
		l[1].leave(1)
		n.Advance(29)
		n.waits("hold", e)
		n.Advance(1)
		n.want("after the hold", 30, e)
	})
	both(t, func(n *bench) {
		l, hold := n.slots(1), n.door()
		s, alone := set(&hold.Queue, &l.Queue), set(&l.Queue)
		try(alone, 1)
		n.enter(s, 1, time.Hour)
		for range 2 * maxOvertakes {
			hold.shut(10)
			l.leave(1) // sends it to the door
			if !try(alone, 1) {
				n.Fatal("it reserving at a limit aside")
			}
			n.Advance(10) // and back
		}
		n.Advance(time.Hour)
	})
}

// reserves makes an entry for the limits and slots a, b reserve. An earlier one will take of the first limit
// when c is left.
func reserves(n *bench, limits ...*Queue) (e *entry, a, b, c *slots) {
	a, b, c = n.slots(1), n.slots(1), n.slots(1)
	onlyA, onlyB := set(&a.Queue), set(&b.Queue)
	c.pass()
	n.enter(set(limits[0], &c.Queue), 1, 0)
	try(onlyA, 1)
	e = n.enter(set(append(limits, &a.Queue, &b.Queue)...), 1, 0)
	for range maxOvertakes / 2 {
		try(onlyB, 1)
		a.leave(1)
		try(onlyA, 1)
		b.leave(1)
	}
	if n.waits("a is taken", e); try(onlyB, 1) {
		n.Error("it does not reserve")
	}
	return e, a, b, c
}

// The limits of a head that reserves are looked at together, and one alarm of theirs is set.
func TestInsistsInTime(t *testing.T) {
	for _, c := range []struct{ alarm, free, late, want time.Duration }{
		{free: 0, want: 100},
		{free: 0, late: 130, want: 100},
		{alarm: 1, free: 130, want: 130},
	} {
		skew(t, func(n *bench, clk *skewed) {
			rate := n.bucket(1, 100)
			e, a, _, f := reserves(n, &rate.Queue)
			f.leave(1)
			if c.alarm > 0 {
				rate.Change(func(int64) Effect { return Sooner })
			}
			n.Advance(c.free)
			a.leave(1)
			if clk.ahead.Add(int64(c.late)); c.late > 0 {
				try(set(&rate.Queue), 1)
			} else {
				n.Advance(100)
			}
			n.Settle()
			if !e.done.Load() || n.since(rate.takes[1].since) != c.want {
				n.Errorf("%+v: done %v, %+v", c, e.done.Load(), rate.takes)
			}
		})
	}
}

// A head that reserves has no alarm where it could go when it was looked at. It is looked at there again.
func TestInsistsAndLosesToken(t *testing.T) {
	both(t, func(n *bench) {
		rate, other := n.bucket(1, 100), n.bucket(1, 50)
		e, a, _, f := reserves(n, &rate.Queue, &other.Queue)
		other.Change(func(now int64) Effect { other.full = now + 50; return Later })
		a.leave(1)
		n.Advance(20)
		f.leave(1)
		n.Advance(99)
		n.waits("no token", e)
		n.Advance(1)
		n.want("token", 120, e)
	})
}

// Of the heads that can go at one instant, the one that came first is next, at whichever queue it is.
func TestFirstComes(t *testing.T) {
	for i := range 2 {
		both(t, func(n *bench) {
			a, b, c := n.slots(1), n.slots(1), n.slots(1)
			sides := []*Queue{&a.Queue, &b.Queue}
			s := set(sides[i], sides[1-i])
			claims := claims(s, 1)
			s.TryEnter(claims)
			first, second := n.enter(set(&a.Queue, &c.Queue), 1, 0), n.enter(set(&b.Queue, &c.Queue), 1, 0)
			s.Undo(claims)
			n.Settle()
			n.want("first", 0, first)
			n.waits("second", second)
			c.leave(1)
		})
	}
}

// A light head that comes to a limit later goes behind a heavy one that is parked there.
func TestParkedBehind(t *testing.T) {
	both(t, func(n *bench) {
		a, b := n.slots(2), n.slots(1)
		a.pass()
		b.pass()
		heavy, light := n.enter(set(&a.Queue), 2, 0), n.enter(set(&b.Queue, &a.Queue), 1, 0)
		b.leave(1)
		n.Settle()
		n.waits("light one moved", heavy, light)
		heavy.cancel()
		n.Settle()
		n.want("heavy one gave up", 0, light)
	})
}

// Whether the wait is too long is known exactly: before it begins, and when a plan changes.
func TestDeadlines(t *testing.T) {
	both(t, func(n *bench) {
		rate, win := n.bucket(1, 10), n.window(2, 100)
		s := set(&rate.Queue, &win.Queue)
		tooLate := func(why string, e *entry, at, wait time.Duration) {
			n.Helper()
			if err := (&TooLate{}); !errors.As(e.err, &err) || err.Wait != wait || e.at != at {
				n.Errorf("%s: %v at %v, want a wait of %v to be too long at %v", why, e.err, e.at, wait, at)
			}
		}
		n.want("first", 0, n.enter(s, 1, 1))
		tooLate("by the rate", n.enter(s, 1, 10), 0, 10)
		a := n.enter(s, 1, 11)
		b := n.enter(s, 1, 101)
		tooLate("by the window", n.enter(s, 1, 100), 0, 100)
		c := n.enter(s, 1, 131)
		d := n.enter(s, 1, 500)
		if n.AdvanceTo(10); win.outlooks == 0 {
			n.Error("no outlook")
		}
		n.want("second", 10, a)
		n.AdvanceTo(30)
		n.waits("window is full", b, c, d)
		win.Change(func(int64) Effect { win.span++; return None })
		n.Settle()
		n.waits("no effect, by what it says", b, c, d)
		win.Change(func(int64) Effect { return Later })
		n.Settle()
		tooLate("later", b, 30, 71)
		n.AdvanceTo(101)
		n.want("later", 101, c)
		rate.Change(func(int64) Effect { rate.burst = 2; return Sooner })
		heavy := n.enter(s, 2, 0)
		win.Change(func(int64) Effect { win.most = 1; return Later })
		n.Settle()
		if err := (&TooMuch{}); !errors.As(heavy.err, &err) || *err != (TooMuch{1, 1, 2}) {
			n.Errorf("dearer than the limit: %v", heavy.err)
		}
		d.cancel()
		n.Settle()

		// What other sets take turns out when the entry is looked at.
		n.AdvanceTo(400)
		rate.Change(func(int64) Effect { rate.burst, rate.tick = 2, 20; return Later })
		try(set(&rate.Queue), 2)
		e := n.enter(s, 1, 25)
		rate.full += 5 // to its very deadline
		n.AdvanceTo(420)
		tooLate("head", e, 420, 5)
	})
}

// A limit may go by the plan of another: a change of that has the heads looked at wherever they are parked.
func TestChangeElsewhere(t *testing.T) {
	both(t, func(n *bench) {
		rate, other := n.bucket(1, 100), n.bucket(1, 1)
		s := set(&rate.Queue, &other.Queue)
		try(s, 1)
		e := n.enter(s, 1, 0)
		n.Advance(50)
		other.Change(func(now int64) Effect { rate.full = now; return Sooner })
		n.Settle()
		n.want("a token", 50, e)
	})
}

// Entries behind one that stays are later for it, those behind one that is refused are not.
func TestReview(t *testing.T) {
	both(t, func(n *bench) {
		win := n.window(1, 10)
		s := set(&win.Queue)
		n.enter(s, 1, 0)
		a, b, c := n.enter(s, 1, 0), n.enter(s, 1, 26), n.enter(s, 1, 31)
		win.Change(func(int64) Effect { win.span = 13; return Later })
		n.Settle()
		if err, ok := b.err.(*TooLate); !ok || err.Wait != 26 {
			n.Errorf("a wait of 26: %v", b.err)
		}
		n.Advance(13)
		n.want("first", 13, a)
		n.Advance(13)
		n.want("second", 26, c)
	})
}

// The plan's bounds spare the entries being looked at, and refuse all where that is known.
func TestPlan(t *testing.T) {
	both(t, func(n *bench) {
		win := n.window(1, 10)
		s := set(&win.Queue)
		n.enter(s, 1, 0)
		win.closed = true
		if e := n.enter(s, 1, time.Hour); e.err == nil || win.outlooks > 0 {
			n.Errorf("%v, outlooks %d", e.err, win.outlooks)
		}
		for _, c := range []int{2, 4} {
			if err, ok := n.enter(set(&n.slots(3).Queue, &win.Queue), c, 0).err.(*TooMuch); !ok || err.Capacity != 1 || err.Cost != c {
				n.Errorf("a cost of %d: %v", c, err)
			}
		}
	})
}

// An entry that was admitted after its context had ended is taken back, and the next one goes.
func TestTakenBack(t *testing.T) {
	both(t, func(n *bench) {
		l, rate := n.slots(1), n.bucket(1, 10)
		s := set(&l.Queue, &rate.Queue)
		l.pass()
		e, next := n.enter(s, 1, 0), n.enter(set(&l.Queue), 1, 0)
		rate.onTake = func() { e.cancel() }
		n.Advance(5)
		l.leave(1)
		n.Settle()
		if !errors.Is(e.err, context.Canceled) || !l.takes[0].undone || !rate.takes[0].undone {
			n.Errorf("%v, %+v, %+v", e.err, l.takes, rate.takes)
		}
		n.want("taken back", 5, next)
		l.View(func(now int64) {
			if i := l.Info(now); i.Granted != 2 || i.Waiting != 0 || i.NextDue != Never { // with the one that took no lock
				n.Errorf("%+v", i)
			}
		})
	})
}

// An overdue look counts from the instant when the last of the limits let the entry go. The newcomer that
// made it has its turn afterwards.
func TestOverdue(t *testing.T) {
	for _, c := range []struct {
		window, want time.Duration
		slot         bool // is given back now
	}{{1, 10, false}, {20, 20, false}, {1, 35, true}} {
		skew(t, func(n *bench, clk *skewed) {
			rate, l := n.bucket(1, 10), n.slots(1)
			s := set(&rate.Queue, &n.window(1, c.window).Queue, &l.Queue)
			claims := claims(s, 1)
			s.TryEnter(claims)
			e := n.enter(s, 1, 0)
			clk.ahead.Store(35)
			if c.slot {
				s.Undo(claims)
			} else {
				l.leave(1)
			}
			if try(set(&rate.Queue), 1) == c.slot {
				n.Errorf("%+v: the newcomer has a token: %v", c, !c.slot)
			}
			n.Settle()
			if got := n.since(rate.takes[1].since); got != c.want || e.err != nil || !rate.thawed {
				n.Errorf("counts from %v, want %v; %v, thawed %v", got, c.want, e.err, rate.thawed)
			}
		})
	}
}

// A late alarm does not count, but a head's own waits elsewhere do; and an arrival does what is overdue.
func TestLateness(t *testing.T) {
	skew(t, func(n *bench, clk *skewed) {
		rate, l := n.bucket(1, 10), n.slots(2)
		alone, s := set(&rate.Queue), set(&rate.Queue, &l.Queue)
		rate.behind = 3
		try(alone, 1)
		e := []*entry{n.enter(alone, 1, 0), n.enter(s, 1, 0), n.enter(alone, 1, 0), n.enter(alone, 1, 0)}
		clk.ahead.Store(25) // due at 7, 17, 27, 37
		if try(alone, 1) {
			n.Error("a newcomer overtakes those that an alarm is late for")
		}
		n.Settle()
		if !e[0].done.Load() || !e[1].done.Load() || e[2].done.Load() {
			n.Error("an arrival does not do what an alarm is late for")
		}
		n.Advance(2)
		l.pass()
		l.pass()
		late := n.enter(s, 1, 0)
		n.Advance(10)
		n.Advance(20)
		clk.ahead.Add(100)
		l.leave(2)
		n.Settle()
		var got []time.Duration
		for _, t := range rate.takes {
			got = append(got, n.since(t.now), n.since(t.since))
		}
		if want := []time.Duration{0, -3, 25, 7, 25, 17, 27, 27, 37, 37, 157, 157}; !slices.Equal(got, want) {
			n.Errorf("taken at, since %d, want %d", got, want)
		}
		if !late.done.Load() || len(rate.ran) != 5 || rate.ran[4] != [2]int64{n.start + 157, n.start + 157} {
			n.Errorf("%v", rate.ran)
		}
	})
}

// The first waiters are woken by a bell, and the alarm calls its function for those behind them alone. A waiter
// that is admitted or gives up leaves its bell to others.
func TestBellsAreForTheFirst(t *testing.T) {
	bubble.Real(t, func(b *bubble.B) {
		const behind = 6
		n := newBench(b, timing.New(nil))
		l := n.bucket(1, 10*time.Millisecond)
		calls := 0
		l.alarm = timing.NewAlarm(l.clk, func() {
			calls++
			l.ring()
		})
		s := set(&l.Queue)
		for round := range 3 {
			try(s, 1)
			var all []*entry
			for range maxBells + behind {
				all = append(all, n.enter(s, 1, 0)) // in this order
			}
			for _, e := range all[:behind] { // they had bells
				e.cancel()
			}
			n.Settle()
			for _, e := range all[behind:] {
				n.waits("before its token", e)
				n.Advance(10 * time.Millisecond)
				n.want("with its token", n.Now(), e)
			}
			if want := behind * (round + 1); calls != want {
				t.Errorf("round %d: the alarm has called its function %d times, want %d", round, calls, want)
			}
			if len(s.bells) != maxBells || len(s.idle) != maxBells {
				t.Errorf("round %d: %d bells, %d of them free, want %d", round, len(s.bells), len(s.idle), maxBells)
			}
			n.Advance(time.Second)
		}
		n.check()
	})
}
