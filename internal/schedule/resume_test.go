package schedule_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/schedule"
)

// both makes the same calls to two schedules, whose marks may differ.
type both struct {
	now      int64
	of       [2]*schedule.Schedule
	entries  []charged
	tracking bool
}

type charged struct {
	marks [2]uint64
	cost  int
}

// change makes one call that can come at any time, also during a hold.
func (b *both) change(t *rapid.T) {
	kinds := []string{"debt", "settle", "rate", "burst", "absent", "ask"}
	if b.tracking {
		kinds = append(kinds, "repace", "spend") // an Adaptive makes these calls, and always tracks
	}
	what := rapid.SampledFrom(kinds).Draw(t, "call")
	n := rapid.IntRange(1, 9).Draw(t, "n")
	d := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 2*sec)).Draw(t, "d")
	p := anyPlan().Draw(t, "plan")
	settled := -1
	if len(b.entries) > 0 {
		settled = rapid.IntRange(0, len(b.entries)-1).Draw(t, "entry")
	}
	var e charged
	for i, s := range b.of {
		switch what {
		case "debt":
			e.marks[i], e.cost = s.Take(b.now, b.now, n), n
		case "settle":
			if settled >= 0 {
				s.Settle(b.now, b.entries[settled].marks[i], b.entries[settled].cost, n-1)
			}
		case "rate":
			s.SetRate(b.now, p.n, p.span)
		case "burst":
			s.SetBurst(b.now, n)
		case "absent":
			s.Absent(b.now, uint64(n))
		case "repace":
			s.Repace(b.now, b.now-d, p.n, p.span)
		case "spend":
			s.Spend(b.now, b.now+d)
		case "ask":
			s.Due(s.Arrive(b.now), 0, 1)
			s.Full(b.now)
		}
	}
	switch {
	case what == "debt":
		b.entries = append(b.entries, e)
	case what == "settle" && settled >= 0:
		b.entries = append(b.entries[:settled], b.entries[settled+1:]...)
	}
}

// enter has both grant an entry, when it is due and perhaps a little later.
func (b *both) enter(t *rapid.T) {
	cost := rapid.IntRange(1, b.of[0].Burst()).Draw(t, "cost")
	late := rapid.SampledFrom([]int64{0, 0, 1, ms, 20 * ms}).Draw(t, "late")
	var e charged
	since := b.of[0].Arrive(b.now)
	if x := b.of[1].Arrive(b.now); x != since {
		t.Fatalf("at %d: arrived at %d and %d", b.now-base, since-base, x-base)
	}
	due := b.of[0].Due(since, 0, cost)
	if x := b.of[1].Due(since, 0, cost); x != due {
		t.Fatalf("at %d: due at %d and %d", b.now-base, due-base, x-base)
	}
	if due > base+100*year {
		return
	}
	b.now = max(b.now, due) + late
	for i, s := range b.of {
		e.marks[i], e.cost = s.Take(b.now, since, cost), cost
	}
	b.entries = append(b.entries, e)
}

// A hold that is ended early is one that was not to last longer, whatever happens before it, during it, at the
// instant of its end and afterwards.
func TestResumedHoldIsAShortOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan().Draw(t, "plan")
		burst := anyBurst().Draw(t, "burst")
		slack := rapid.SampledFrom([]int64{0, -1, 1, 3 * ms}).Draw(t, "slack")
		ended, short := schedule.New(p.n, p.span, burst, slack), schedule.New(p.n, p.span, burst, slack)
		b := &both{now: base, of: [2]*schedule.Schedule{&ended, &short}, tracking: rapid.Bool().Draw(t, "tracking")}
		if b.tracking {
			ended.Track()
			short.Track()
		}
		after := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 30*ms), rapid.Int64Range(0, 3*sec))
		some := func(what string, until int64) {
			for range rapid.IntRange(0, 6).Draw(t, what) {
				b.now = min(b.now+after.Draw(t, "after"), until)
				if b.now < until && b.of[0].Held() <= b.now && rapid.Bool().Draw(t, "enters") {
					b.enter(t)
				} else {
					b.change(t)
				}
			}
		}
		const never = 1 << 62
		for range rapid.IntRange(1, 3).Draw(t, "holds") {
			some("calls before", never)
			b.now++
			length := 1 + after.Draw(t, "length")
			longer := length + rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, day), rapid.Just(100*year)).Draw(t, "longer")
			end := b.now + length
			ended.Hold(b.now, b.now+longer)
			short.Hold(b.now, end)
			some("calls during the hold", end-1)
			b.now = end
			ended.Resume(b.now)
			if rapid.Bool().Draw(t, "twice") {
				ended.Resume(b.now)
				short.Resume(b.now)
			}
			for range 3 {
				b.enter(t)
			}
			some("calls after", never)
			if ended.Held() != short.Held() || ended.Full(b.now) != short.Full(b.now) || ended.Forfeited() != short.Forfeited() {
				t.Fatalf("at %d: held until %d and %d, full: %v and %v, forfeited %d and %d", b.now-base, ended.Held()-base, short.Held()-base,
					ended.Full(b.now), short.Full(b.now), ended.Forfeited(), short.Forfeited())
			}
		}
	})
}

// However long the hold was to be, no more tokens go than without it: neither in any window nor in all.
func TestResumeIsNeverOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan().Filter(func(p plan) bool { return p.n > 0 }).Draw(t, "plan")
		burst := rapid.IntRange(1, 9).Draw(t, "burst")
		slack := rapid.SampledFrom([]int64{-1, 1, 3 * ms}).Draw(t, "slack")
		s, free := schedule.New(p.n, p.span, burst, slack), schedule.New(p.n, p.span, burst, slack)
		interval := max(1, p.span/p.n)
		var all []grant
		now := base
		for range rapid.IntRange(1, 6).Draw(t, "holds") {
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 9*interval)).Draw(t, "after")
			s.Hold(now, now+rapid.OneOf(rapid.Int64Range(1, 9), rapid.Just(3600*sec)).Draw(t, "hold"))
			now += rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 9*interval)).Draw(t, "until")
			s.Resume(now)
			for range 2 * burst {
				since := s.Arrive(now)
				if s.Due(since, 0, 1) > now {
					break
				}
				s.Take(now, since, 1)
				all = append(all, grant{now, 1})
				if p.n > 1 {
					continue // less than a nanosecond of idle time is made up for, which differs
				}
				if since = free.Arrive(now); free.Due(since, 0, 1) > now {
					t.Fatalf("at %d: a token that would not be there without the holds", now-base)
				}
				free.Take(now, since, 1)
			}
		}
		if err := bound(all, p.n, p.span, burst, max(slack, 0)); err != nil {
			t.Fatal(err)
		}
	})
}

// One token is there at the instant of Resume, or as much of one as there would be without the hold, and the
// next ones come at the rate.
func TestResumeInstants(t *testing.T) {
	for name, c := range map[string]struct {
		burst  int
		spent  int   // tokens that go right before the hold
		resume int64 // how long after it began
		want   []int64
	}{
		"full":                       {5, 0, ms, []int64{0, 10 * ms, 20 * ms}},
		"full, after many intervals": {5, 0, 3600 * sec, []int64{0, 10 * ms, 20 * ms}},
		"at once":                    {5, 0, 0, []int64{0, 10 * ms, 20 * ms}},
		"with one token left":        {5, 4, 0, []int64{0, 10 * ms, 20 * ms}},
		"empty":                      {5, 5, 4 * ms, []int64{6 * ms, 16 * ms}},
		"empty, burst 1":             {1, 1, 4 * ms, []int64{6 * ms, 16 * ms}},
		"empty, after an interval":   {1, 1, 10 * ms, []int64{0, 10 * ms}},
	} {
		s := schedule.New(100, sec, c.burst, -1)
		now := base
		if c.spent > 0 {
			s.Take(now, now, c.spent)
		}
		s.Hold(now, now+2*3600*sec)
		now += c.resume
		s.Resume(now)
		if s.Held() > now {
			t.Errorf("%s: held until %d after Resume", name, s.Held()-now)
		}
		since := now
		for i, want := range c.want {
			due := s.Due(since, 0, 1)
			if due != now+want {
				t.Errorf("%s: token %d is due in %d, want %d", name, i, due-now, want)
			}
			s.Take(due, since, 1)
		}
	}
}

// Without a hold, and after one, Resume changes nothing: not even lateness that is yet to be made up for.
func TestResumeOfNoHold(t *testing.T) {
	s := schedule.New(1000, sec, 3, 10*ms)
	s.Take(base+3*ms, base, 1) // late
	now := base + 4*ms
	arrived, changed := s.Arrive(now), s
	changed.Resume(now)
	if changed != s || changed.Arrive(now) != arrived {
		t.Errorf("%+v, want %+v", changed, s)
	}
	s.Hold(now, now+ms)
	now += 2 * ms
	s.Take(now, now, 1)
	changed = s
	if changed.Resume(now); changed != s {
		t.Errorf("after a hold: %+v, want %+v", changed, s)
	}
}
