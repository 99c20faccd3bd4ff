package schedule_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/schedule"
)

// A schedule that follows one with the same plan stays as it is, and any other takes over the plan
// with the tokens that it has.
func TestFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) (schedule.Schedule, int64, int64, int) {
			plan := rapid.SampledFrom(plans).Draw(t, what)
			burst := rapid.IntRange(1, 9).Draw(t, what+"'s burst")
			return schedule.New(plan.n, plan.span, burst, 0), plan.n, plan.span, burst
		}
		s, _, _, before := draw("one")
		o, n, span, burst := draw("other")
		now := base + rapid.Int64Range(0, day).Draw(t, "now")
		s.Take(base, base, rapid.IntRange(1, 9).Draw(t, "cost"))
		if rapid.Bool().Draw(t, "the same plan") {
			o = s
			o.Take(now, now, 1)
			want := s
			if s.Follow(now, &o); s != want {
				t.Fatalf("%+v, want %+v", s, want)
			}
			return
		}
		want := s
		want.SetRate(now, n, span)
		if burst != before {
			want.SetBurst(now, burst)
		}
		s.Follow(now, &o)
		for _, ahead := range []uint64{0, 1, 100} {
			if got, want := s.Due(now, ahead, 1), want.Due(now, ahead, 1); got != want {
				t.Fatalf("after %d others due at %d, want %d", ahead, got-base, want-base)
			}
		}
		if s.Burst() != burst || s.Limit() != o.Limit() {
			t.Fatalf("burst %d, limit %d; want %d, %d", s.Burst(), s.Limit(), burst, o.Limit())
		}
	})
}

// A copy that was held is behind its original when it keeps no entry back any longer: the hold is
// over, and both have the same tokens.
func TestBehind(t *testing.T) {
	o := schedule.New(1, sec, 3, -1)
	s := o
	both := func(now int64) { try(&o, now, 1); try(&s, now, 1) }
	s.Hold(base + 2*sec)
	for _, c := range []struct {
		at     int64
		behind bool
	}{{base, false}, {base + 2*sec, false}, {base + 3*sec, false}} {
		if s.Behind(c.at, &o) != c.behind {
			t.Errorf("%d ns after the hold began: behind %v", c.at-base, !c.behind)
		}
	}
	both(base + 4*sec) // as soon as both were full, an entry makes them equal
	if !s.Behind(base+4*sec, &o) {
		t.Error("both were full, and it is not behind")
	}

	// A debt that is longer than the hold is the same in both.
	o = schedule.New(1, sec, 3, -1)
	o.Settle(base, 9)
	s = o
	s.Hold(base + 2*sec)
	if s.Behind(base+2*sec-1, &o) || !s.Behind(base+2*sec, &o) {
		t.Error("it is behind before the end of the hold, or not at its end")
	}
	o.Settle(base, -1)
	if s.Behind(base+3*sec, &o) {
		t.Error("it is behind, with a token less")
	}

	rapid.Check(t, func(t *rapid.T) {
		// A whole number of nanoseconds: a copy is compared in finer units than clocks show.
		interval := rapid.OneOf(rapid.Int64Range(1, 9), rapid.Int64Range(1, day)).Draw(t, "interval")
		o := schedule.New(1, interval, rapid.IntRange(1, 5).Draw(t, "burst"), -1)
		s := o
		until := base + rapid.Int64Range(1, 3*sec).Draw(t, "hold")
		s.Hold(until)
		now := base
		for range 20 {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, sec), rapid.Just(max(0, until-now))).Draw(t, "after")
			if rapid.Bool().Draw(t, "enters") && o.Due(now, 0, 1) <= now {
				o.Take(now, now, 1)
				s.Take(now, now, 1)
			}
			if !s.Behind(now, &o) {
				continue
			}
			for _, ahead := range []uint64{0, 1, 2, 5, 100, 1_000_003} {
				if got, most := s.Due(now, ahead, 1), o.Due(now, ahead, 1); got > most || until > now {
					t.Fatalf("behind at %d, held until %d: due at %d, want %d", now-base, until-base, got-base, most-base)
				}
			}
		}
	})
}
