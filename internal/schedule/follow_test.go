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
		s, n0, span0, before := draw("one")
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
		if n != n0 || span != span0 { // the same plan once more would lose a part of a nanosecond
			want.SetRate(now, n, span)
		}
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
