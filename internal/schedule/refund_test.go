package schedule_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/schedule"
)

// Whatever entries turn out to have cost less, and however late that is told, the bound holds for what
// they did cost: at most burst + rate·w tokens in any window of length w.
func TestNeverOverAfterRefunds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan().Filter(func(p plan) bool { return p.n > 0 }).Draw(t, "plan")
		burst := anyBurst().Draw(t, "burst")
		s := schedule.New(p.n, p.span, burst, -1)
		if rapid.Bool().Draw(t, "tracked") {
			s.Track()
		}
		interval := max(1, p.span/p.n)
		var all []grant
		var marks []uint64
		var open []int // not settled
		now := base
		for range rapid.IntRange(2, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "pause") == 0 {
				now += rapid.OneOf(rapid.Int64Range(0, 5*interval), rapid.Int64Range(0, min(interval, year/int64(2*burst))*int64(2*burst))).Draw(t, "for")
			}
			if len(open) > 0 && rapid.Bool().Draw(t, "settle") {
				k := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				i := open[k]
				open = append(open[:k], open[k+1:]...)
				actual := rapid.IntRange(0, all[i].cost).Draw(t, "actual")
				s.Settle(now, marks[i], all[i].cost, actual)
				all[i].cost = actual
				continue
			}
			cost := rapid.IntRange(1, burst).Draw(t, "cost")
			if s.Due(now, 0, cost) > now {
				continue
			}
			marks = append(marks, s.Take(now, now, cost))
			open = append(open, len(all))
			all = append(all, grant{now, cost})
			if now > base+100*year {
				break
			}
		}
		if err := bound(all, p.n, p.span, burst, 0); err != nil {
			t.Fatal(err)
		}
	})
}

// A bucket of 10 at 1 a second. What the full bucket has turned away since the entry does not come back;
// what it had no room to turn away does, however long ago the entry was.
func TestRefundAfterRefill(t *testing.T) {
	s := schedule.New(1, sec, 10, -1)
	s.Track()
	first := s.Take(base, base, 10)
	s.Take(base+10*sec, base+10*sec, 10)
	s.Settle(base+10*sec, first, 10, 0)
	if got := s.Due(base+10*sec, 0, 1); got != base+11*sec {
		t.Errorf("full since: the next is due after %d ns, want a second", got-base-10*sec)
	}
	s = schedule.New(1, sec, 10, -1)
	s.Track()
	first = s.Take(base, base, 10)
	for i := range int64(20) {
		at := base + (1+5*i)*sec
		s.Take(at+4*sec, at+4*sec, 5) // it has 5 tokens at most, just before
	}
	now := base + 100*sec
	s.Settle(now, first, 10, 7)
	if got := s.Due(now, 0, 3); got != now {
		t.Errorf("never above 5 since: 3 tokens are due after %d ns, want them back at once", got-now)
	}
	if got := s.Due(now, 0, 4); got != now+sec {
		t.Errorf("never above 5 since: the fourth is due after %d ns, want a second", got-now)
	}
}

// A history of many steps becomes shorter, and what comes back never more.
func TestRefundsFromLongHistory(t *testing.T) {
	const burst = 5000
	s := schedule.New(1, sec, burst, -1)
	s.Track()
	var marks []uint64
	for range burst {
		marks = append(marks, s.Take(base, base, 1))
	}
	for _, m := range marks {
		s.Settle(base, m, 1, 0)
	}
	if got := s.Due(base, 0, burst*9/10); got != base {
		t.Errorf("nine in ten of the tokens are due after %d ns, want them back at once", got-base)
	}
	if got := s.Due(base, 1, burst); got == base {
		t.Error("more tokens came back than there were")
	}
}
