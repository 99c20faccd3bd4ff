package schedule_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/schedule"
)

// isOpen reports whether entries go by the word of the cell.
func isOpen(c *schedule.Cell) bool { return c.Load() != -1 }

// A cell stays closed as long as a nanosecond of lateness can be made up: its word does not
// count it.
func TestClosedWhileLate(t *testing.T) {
	for _, late := range []int64{1, 2, ms, 10 * ms} {
		s := schedule.New(100, sec, 1, 0)
		s.Take(base, base, 1)
		s.Take(base+10*ms+late, base, 1)
		now := base + 20*ms
		if cell := s.Open(now, schedule.Shut()); isOpen(cell) {
			t.Errorf("%d ns late: the cell is open", late)
		}
		if got := s.Arrive(now); got != now-late {
			t.Errorf("%d ns late: made up %d ns", late, now-got)
		}
		if cell := s.Open(now+sec, schedule.Shut()); !isOpen(cell) {
			t.Errorf("%d ns late: the cell is closed after idle time", late)
		}
	}
}

// A cell is used again as long as the plan is the same, and replaced by another one where it is
// not: an entry that has read the old one must not go by it.
func TestSameCellForSamePlan(t *testing.T) {
	for name, change := range map[string]func(*schedule.Schedule){
		"nothing":         func(*schedule.Schedule) {},
		"an entry":        func(s *schedule.Schedule) { try(s, base+sec, 2) },
		"a settlement":    func(s *schedule.Schedule) { s.Settle(base, 0, 1, 2) },
		"the same rate":   func(s *schedule.Schedule) { s.SetRate(base, 2000, 2*sec) },
		"the count":       func(s *schedule.Schedule) { s.SetRate(base, 999, sec) },
		"the span":        func(s *schedule.Schedule) { s.SetRate(base, 1, ms+1) },
		"the burst":       func(s *schedule.Schedule) { s.SetBurst(base, 4) },
		"no limit":        func(s *schedule.Schedule) { s.SetRate(base, 0, 0) },
		"only the units":  func(s *schedule.Schedule) { s.SetRate(base, 3, 3*ms+1) },
		"only the tokens": func(s *schedule.Schedule) { s.SetRate(base, 1, 2*ms) },
	} {
		b := newBucketOf(base, schedule.New(1000, sec, 3, -1))
		old := b.cell
		b.locked(base+sec, func() { change(&b.s) })
		same := name == "nothing" || name == "an entry" || name == "a settlement" || name == "the same rate"
		if !isOpen(b.cell) || (b.cell == old) != same {
			t.Errorf("%s changed: open %v, the same cell %v", name, isOpen(b.cell), b.cell == old)
		}
	}
}

// However large a debt is, the cell refuses as long as the schedule does, and the debt is still
// there when the cell is closed.
func TestCellWithDebt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := rapid.SampledFrom(plans[:9]).Draw(t, "plan")
		burst := rapid.IntRange(1, 9).Draw(t, "burst")
		debt := rapid.Int64Range(0, 9).Draw(t, "debt") << rapid.IntRange(0, 40).Draw(t, "shifted")
		plain := schedule.New(plan.n, plan.span, burst, -1)
		plain.Settle(base, 0, 0, int(min(debt, math.MaxInt)))
		celled := newBucketOf(base, plain)
		now := base
		for range 5 {
			now += rapid.Int64Range(0, 2*plan.span).Draw(t, "after")
			want := try(&plain, now, 1)
			if got, quick := celled.try(now, 1); got != want {
				t.Fatalf("at %d: let in: %v, want %v (by the word: %v)", now-base, got, want, quick)
			}
		}
		celled.cell.Close(&celled.s)
		if got, want := celled.s.Due(now, 0, 1), plain.Due(now, 0, 1); got != want {
			t.Fatalf("due at %d, want %d", got-base, want-base)
		}
	})
}

// A bucket without a limit has no tokens that a hold could take. A limit that is set during the
// hold, or at its very end, finds the one token that holds leave.
func TestLimitAfterHoldOfUnlimited(t *testing.T) {
	for _, at := range []int64{base, base + sec, base + 2*sec} {
		s := schedule.New(0, 0, 5, 0)
		s.Hold(base, base+2*sec)
		s.SetRate(at, 1, sec)
		for i, want := range []int64{2 * sec, 3 * sec, 4 * sec} {
			if got := s.Due(at, uint64(i), 1) - base; got != want {
				t.Errorf("limited at %d: token %d is due at %d, want %d", at-base, i, got, want)
			}
		}
	}
	s := schedule.New(0, 0, 5, 0)
	s.Hold(base, base+2*sec)
	s.SetRate(base+2*sec+1, 1, sec)
	if got := s.Due(base+2*sec+1, 4, 1); got != base+2*sec+1 {
		t.Errorf("limited after the hold: the burst is due at %d", got-base)
	}
}

// However old a cell is that nothing has closed, it answers as the schedule does, or leaves it to
// the lock. The largest bursts that fit, at the end of what the word can count to, are the edge.
func TestCellOfAnyAge(t *testing.T) {
	for _, plan := range plans[:9] {
		answered := 0
		for shift := range 31 {
			burst := 1 << shift
			fresh := schedule.New(plan.n, plan.span, burst, -1)
			for part := range int64(51 * 16) {
				s := fresh
				cell := s.Open(base, schedule.Shut())
				if !isOpen(cell) {
					break
				}
				if v := cell.Take(cell.Load(), base, burst); v != schedule.Taken || !try(&s, base, burst) {
					t.Fatalf("%+v, burst %d: refused at first: %d", plan, burst, v)
				}
				age := (part%16 + 17) << 53 >> (part / 16) // from 128 ns to 9 years
				for range 2 {
					v := cell.Take(cell.Load(), base+age, burst)
					if v == schedule.Closed {
						break
					}
					answered++
					if want := try(&s, base+age, burst); want != (v == schedule.Taken) {
						t.Fatalf("%+v, burst %d, %d ns later: verdict %d, want it let in: %v", plan, burst, age, v, want)
					}
				}
			}
		}
		if answered == 0 {
			t.Errorf("%+v: all was left to the lock", plan)
		}
	}
}

// A hold until an instant that there is one until already does nothing.
func TestHoldUntilTheSame(t *testing.T) {
	s := schedule.New(1, sec, 3, 0)
	s.Hold(base, base+2*sec)
	s.Settle(base, uint64(base), 2, 0)
	want := s
	if s.Hold(base, base+2*sec); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}
