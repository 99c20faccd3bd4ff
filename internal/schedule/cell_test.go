package schedule_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/schedule"
)

// bucketOf is a Schedule with a Cell in front of it, used as a gate uses them: by the word
// where the cell is open, and under the lock where it is not.
type bucketOf struct {
	s     schedule.Schedule
	cell  *schedule.Cell
	taken uint64 // entries that went by the word, as far as the cell has told
}

func newBucketOf(now int64, s schedule.Schedule) *bucketOf {
	return &bucketOf{s: s, cell: s.Open(now, schedule.Shut())}
}

// locked closes the cell, calls f and opens the cell again, as far as that is possible.
func (b *bucketOf) locked(now int64, f func()) {
	b.taken += b.cell.Close(&b.s)
	f()
	b.cell = b.s.Open(now, b.cell)
}

// try lets an entry go at now if it can, and reports whether it did and by which way.
func (b *bucketOf) try(now int64, cost int) (ok, fast bool) {
	switch b.cell.Take(b.cell.Load(), now, cost) {
	case schedule.Taken:
		return true, true
	case schedule.Refused:
		return false, true
	case schedule.Changed:
		panic("nobody else is there")
	}
	b.locked(now, func() { ok = try(&b.s, now, cost) })
	return ok, false
}

func try(s *schedule.Schedule, now int64, cost int) bool {
	if cost > s.Limit() {
		return false
	}
	since := s.Arrive(now)
	if s.Due(since, 0, cost) > now {
		return false
	}
	s.Take(now, since, cost)
	return true
}

// A schedule with a cell in front of it gives the same answers as without.
func TestCellAgainstSchedule(t *testing.T) {
	fast := 0
	rapid.Check(t, func(t *rapid.T) {
		plan := anyPlan().Draw(t, "plan")
		burst := anyBurst().Draw(t, "burst")
		plain := schedule.New(plan.n, plan.span, burst, 0)
		celled := newBucketOf(base, plain)
		interval := plan.span / max(1, plan.n)
		now, last, gone := base, 0, uint64(0)
		for i := range rapid.IntRange(1, 80).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 2*interval), rapid.Int64Range(0, 3*sec), rapid.Int64Range(0, 10*day)).Draw(t, "after")
			before := celled.cell
			a := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, sec)).Draw(t, "a")
			both := func(f func(*schedule.Schedule)) {
				f(&plain)
				celled.locked(now, func() { f(&celled.s) })
			}
			switch kind := rapid.IntRange(0, 11).Draw(t, "kind"); kind {
			case 0:
				both(func(s *schedule.Schedule) { s.Settle(now, 0, last, last+int(a%9)) })
			case 1:
				p := plans[a%int64(len(plans))]
				both(func(s *schedule.Schedule) { s.SetRate(now, p.n, p.span) })
			case 2:
				both(func(s *schedule.Schedule) { s.SetBurst(now, s.Burst()+int(a%9)) }) // a lower one keeps the cell closed
			case 3:
				both(func(s *schedule.Schedule) { s.Hold(now, now+a) })
			case 4: // somebody waits, is granted late, and lateness is made up
				late := now + a%(20*ms)
				both(func(s *schedule.Schedule) {
					if since := s.Arrive(now); s.Due(since, 0, 1) <= late {
						s.Take(late, since, 1)
					}
				})
				now = late
			default:
				cost := 1 + int(a)%(2+plain.Burst())
				want := try(&plain, now, cost)
				got, quick := celled.try(now, cost)
				if got != want {
					t.Fatalf("call %d at %d: cost %d let in: %v, want %v (by the word: %v)", i, now-base, cost, got, want, quick)
				}
				if quick {
					fast++
				}
				if last = 0; got {
					last = cost
				}
				if quick && got {
					gone++
				}
			}
			if i%5 == 0 {
				both(func(*schedule.Schedule) {}) // as a look at the statistics does
			}
			// The state agrees, too: a copy of it says when the next may go.
			if celled.taken += celled.cell.Close(&celled.s); celled.taken != gone {
				t.Fatalf("call %d: %d entries went by the word, of which it tells %d", i, gone, celled.taken)
			}
			for _, ahead := range []uint64{0, 3} {
				got, want := celled.s.Due(now, ahead, 1), plain.Due(now, ahead, 1)
				if got != want && (got != want+1 || celled.cell == before) {
					t.Fatalf("call %d at %d: due at %d, want %d", i, now-base, got-base, want-base)
				}
			}
			if celled.cell != before {
				// A word can't count to before the instant at which its cell was made: a part
				// of a nanosecond may have been lost.
				plain, last = celled.s, 0
			}
			celled.cell = celled.s.Open(now, celled.cell)
			plain.Arrive(now) // forgets the lateness of long ago, as Open does
		}
	})
	if fast == 0 {
		t.Error("no entry went by the word")
	}
}

// The word is used at every rate at which it can be, for a hundred years: when it can
// count no further, it begins anew.
func TestCellCountsOn(t *testing.T) {
	for _, r := range fineRates[:7] {
		plain := schedule.New(r.n, r.span, r.burst, -1)
		celled := newBucketOf(base, plain)
		now, fast, slow := base, 0, 0
		for i := range int64(400) {
			for range 2 {
				cost := 1 + int(i)%r.burst
				want := try(&plain, now, cost)
				got, quick := celled.try(now, cost)
				if got != want {
					t.Fatalf("%s at %d: let in: %v, want %v", r.name, now-base, got, want)
				}
				if quick {
					fast++
				} else {
					slow++
				}
			}
			now += year / 4
		}
		if fast < 300 {
			t.Errorf("%s: %d calls by the word, %d under the lock", r.name, fast, slow)
		}
		// Close together nothing but the word is used.
		for slow = 0; now < base+100*year+sec; now += ms {
			if _, quick := celled.try(now, 1); !quick {
				slow++
			}
		}
		if slow > 40 {
			t.Errorf("%s: %d calls of 1000 under the lock", r.name, slow)
		}
	}
	// What does not fit into the word stays under the lock, and is right there.
	for _, r := range []struct {
		n, span int64
		burst   int
	}{{math.MaxInt64, sec, 1}, {1_234_567, day, 1_234_567}, {1, 100 * year, 1000}} {
		s := schedule.New(r.n, r.span, r.burst, -1)
		if celled := newBucketOf(base, s); celled.cell.Load() != -1 {
			t.Errorf("%d per %d with burst %d: the cell is open", r.n, r.span, r.burst)
		} else if ok, fast := celled.try(base, 1); !ok || fast {
			t.Errorf("%d per %d with burst %d: refused under the lock", r.n, r.span, r.burst)
		}
	}
}

// The word counts as far as it can and then sends the next one to the lock: not an entry is
// lost.
func TestCellCountsEntries(t *testing.T) {
	for _, r := range append(fineRates[:6:6], struct {
		name    string
		n, span int64
		burst   int
	}{"unlimited", 0, 0, 1}) {
		b := newBucketOf(base, schedule.New(r.n, r.span, r.burst, -1))
		now, want, slow := base, uint64(0), 0
		for range 200_000 {
			ok, fast := b.try(now, 1)
			if ok {
				want++
			}
			if !fast {
				slow++
				b.taken++
			}
			now += 1 + r.span/max(1, r.n)
		}
		if b.locked(now, func() {}); b.taken != want || want != 200_000 {
			t.Errorf("%s: %d entries were counted, %d let in, want 200000", r.name, b.taken, want)
		}
		if slow == 0 || r.n < 1000 && slow > 10 {
			t.Errorf("%s: %d of 200000 entries under the lock", r.name, slow)
		}
	}
}

// An entry whose word was read before the plan was changed does not go by the old plan,
// even when the cell is open again.
func TestStaleWord(t *testing.T) {
	changes := map[string]func(*schedule.Schedule){
		"SetRate":  func(s *schedule.Schedule) { s.SetRate(base, 1, sec) },
		"SetBurst": func(s *schedule.Schedule) { s.SetBurst(base, 1) },
		"Hold":     func(s *schedule.Schedule) { s.Hold(base, base+sec) },
		"Settle":   func(s *schedule.Schedule) { s.Settle(base, 0, 1, 3) },
	}
	for name, change := range changes {
		celled := newBucketOf(base, schedule.New(1000, sec, 2, -1))
		cell, word := celled.cell, celled.cell.Load()
		celled.locked(base, func() {
			change(&celled.s)
			try(&celled.s, base, 1)
			try(&celled.s, base, 1)
		})
		switch v := cell.Take(word, base, 1); v {
		case schedule.Taken, schedule.Refused:
			t.Errorf("%s: an entry went by the plan before it: %d", name, v)
		}
	}
	if shut := schedule.Shut(); shut.Take(shut.Load(), base, 1) != schedule.Closed {
		t.Error("a cell that is shut is open")
	}
}

// caller is one of many that enter at once, stopped between any two of its steps. It does
// what Rate.TryEnter does.
type caller struct {
	step  int
	cell  *schedule.Cell
	word  int64
	now   int64
	stale bool
	cost  int
}

// Many callers, each stopped for any time between reading the word, reading the clock and
// taking, and with readings of the clock that run backward besides: by those readings,
// there are never more tokens in a window than the bound allows.
func TestNeverOverWithStaleReadings(t *testing.T) {
	changed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		plan := anyPlan().Filter(func(p plan) bool { return p.n > 0 }).Draw(t, "plan")
		burst := anyBurst().Draw(t, "burst")
		gate := newBucketOf(base, schedule.New(plan.n, plan.span, burst, -1))
		interval := max(1, plan.span/plan.n)
		now := base
		read := func() int64 {
			back := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 3*interval)).Draw(t, "back")
			return max(base, now-back)
		}
		var all []grant
		callers := make([]caller, 8)
		for range rapid.IntRange(20, 300).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "tick") == 0 {
				now += rapid.OneOf(rapid.Int64Range(0, interval), rapid.Int64Range(0, 9*interval)).Draw(t, "passes")
			}
			c := &callers[rapid.IntRange(0, len(callers)-1).Draw(t, "caller")]
			switch c.step {
			case 0:
				c.cell, c.cost, c.stale = gate.cell, rapid.IntRange(1, burst).Draw(t, "cost"), false
				c.word = c.cell.Load()
			case 1:
				c.now = read()
			case 2:
				switch v := c.cell.Take(c.word, c.now, c.cost); {
				case v == schedule.Taken:
					all = append(all, grant{c.now, c.cost})
				case v == schedule.Changed:
					changed++
					c.word, c.stale = c.cell.Load(), true
					continue
				case v == schedule.Refused && c.stale:
					c.word, c.stale, c.step = c.cell.Load(), false, 1
					continue
				case v == schedule.Refused:
					refused++
				case v == schedule.Closed: // under the lock the clock is read once more
					gate.locked(now, func() {
						if try(&gate.s, now, c.cost) {
							all = append(all, grant{now, c.cost})
						}
					})
				}
			}
			c.step = (c.step + 1) % 3
			if rapid.IntRange(0, 49).Draw(t, "look") == 0 {
				gate.locked(now, func() {}) // somebody looks at the statistics
			}
		}
		if err := bound(all, plan.n, plan.span, burst, 0); err != nil {
			t.Fatal(err)
		}
	})
	if changed == 0 || refused == 0 {
		t.Errorf("%d words changed under a caller, %d calls refused: nothing was proved", changed, refused)
	}
}
