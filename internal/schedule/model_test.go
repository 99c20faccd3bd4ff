package schedule_test

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/schedule"
)

// op is one call of a Schedule.
type op struct {
	kind  byte // see apply
	a, b  int64
	after int64 // how long after the call before
}

// plan is n events per span.
type plan struct{ n, span int64 }

// entry is one that has gone, for both to settle once.
type entry struct {
	mark uint64
	ref  *charge
	at   int64 // when it was granted
}

// pair is a Schedule and its reference. All intervals are whole nanoseconds where whole says so: then
// refunds agree to the nanosecond, too.
type pair struct {
	s       schedule.Schedule
	ref     *bucket
	entries []entry
	whole   bool
}

func newPair(p plan, burst int, slack int64) *pair {
	d := &pair{
		s:     schedule.New(p.n, p.span, burst, slack),
		ref:   newBucket(p.n, p.span, burst, slack),
		whole: p.n == 1,
	}
	d.s.Track()
	return d
}

// plan returns the plan with that number.
func (d *pair) plan(number int64) plan {
	if d.whole {
		return plan{1, 1 + number}
	}
	return plans[uint64(number)%uint64(len(plans))]
}

// apply makes the same calls to both and returns what they disagree about.
func (d *pair) apply(now int64, o op) error {
	s, ref := &d.s, d.ref
	ask := func(what string, got, want int64) error {
		if got != want {
			return fmt.Errorf("%s: %d, want %d (%+d)", what, got, want, got-want)
		}
		return nil
	}
	switch o.kind % 11 {
	case 0, 1, 2: // an entry that goes when it is due, or later
		cost := 1 + int(o.a%int64(ref.burst))
		since := ref.arrive(now)
		if err := ask("Arrive", s.Arrive(now), since); err != nil {
			return err
		}
		due := ref.due(since, 0, cost)
		if err := ask("Due", s.Due(since, 0, cost), due); err != nil {
			return err
		}
		if o.kind == 2 && due > now || due > now+100*year {
			return nil // refused
		}
		grant := max(now, due) + o.b
		d.entries = append(d.entries, entry{s.Take(grant, since, cost), ref.take(grant, since, cost), grant})
	case 3:
		if len(d.entries) == 0 {
			return nil
		}
		i := int(o.b) % len(d.entries)
		e := d.entries[i]
		if e.at > now {
			return nil // no entry ends before it goes
		}
		d.entries = append(d.entries[:i], d.entries[i+1:]...)
		actual := int(o.a) % (2*e.ref.cost + 1)
		if !d.whole {
			actual += e.ref.cost
		}
		s.Settle(now, e.mark, e.ref.cost, actual)
		ref.settle(now, e.ref, actual)
	case 4:
		r := d.plan(o.a)
		d.entries = nil // to convert what they may get back is rounded
		s.SetRate(now, r.n, r.span)
		ref.setRate(now, r.n, r.span)
	case 5:
		burst := 1 + int(o.a%9)
		s.SetBurst(now, burst)
		ref.setBurst(now, burst)
	case 7:
		r := d.plan(o.a)
		d.entries = nil
		s.Repace(now, now-o.b, r.n, r.span)
		ref.repace(now, now-o.b, r.n, r.span)
	case 8:
		s.Spend(now, now+o.a-o.b)
		ref.spend(now, now+o.a-o.b)
	case 9:
		s.Absent(now, uint64(o.a))
		ref.lag(now, uint64(o.a))
	case 6:
		s.Hold(now, now+o.a)
		ref.hold(now, now+o.a)
	case 10:
		s.Resume(now)
		ref.resume(now)
	}
	for _, since := range []int64{now, now - 2*ms} {
		for _, ahead := range []uint64{0, 1, 1000} {
			if err := ask("Due then", s.Due(since, ahead, 1), ref.due(since, ahead, 1)); err != nil {
				return err
			}
		}
	}
	if err := ask("Held", s.Held(), ref.held); err != nil {
		return err
	}
	if s.Full(now) != ref.full(now) {
		return fmt.Errorf("Full: %v", s.Full(now))
	}
	return nil
}

var plans = []plan{
	{7, sec}, {1, sec}, {1000, sec}, {3e8, sec}, {999_999_937, sec}, {1, day}, {1_234_567, day}, {3, 10}, {5, 2}, {0, 0},
}

// anyPlan draws plans of all kinds: those above, and any other, also such that n and span have nothing
// in common, and one token after so many nanoseconds.
func anyPlan() *rapid.Generator[plan] {
	return rapid.OneOf(
		rapid.SampledFrom(plans),
		rapid.Custom(func(t *rapid.T) plan {
			return plan{rapid.Int64Range(1, 1e9).Draw(t, "n"), rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, day)).Draw(t, "span")}
		}),
		rapid.Custom(func(t *rapid.T) plan { return plan{rapid.Int64Range(1, 5000).Draw(t, "n"), sec} }),
		rapid.Custom(func(t *rapid.T) plan {
			return plan{1, rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, day)).Draw(t, "span")}
		}),
	)
}

// anyBurst draws bursts, more often small ones.
func anyBurst() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 2_000_000))
}

func TestScheduleAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan().Draw(t, "plan")
		burst := rapid.OneOf(rapid.Just(0), anyBurst()).Draw(t, "burst")
		slack := rapid.SampledFrom([]int64{0, -1, 1, 3 * ms}).Draw(t, "slack")
		d := newPair(p, burst, slack)
		now := base
		for i := range rapid.IntRange(1, 60).Draw(t, "calls") {
			o := op{
				kind:  rapid.Byte().Draw(t, "kind") % 11,
				a:     rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 10*sec)).Draw(t, "a"),
				b:     rapid.SampledFrom([]int64{0, 0, 1, ms, 20 * ms}).Draw(t, "b"),
				after: rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 30*ms), rapid.Int64Range(0, 3*sec), rapid.Int64Range(0, day)).Draw(t, "after"),
			}
			now += o.after
			if err := d.apply(now, o); err != nil {
				t.Fatalf("call %d, %+v, at %d: %v", i, o, now-base, err)
			}
		}
	})
}

// FuzzSchedule reads calls from the input and compares every answer with the reference.
func FuzzSchedule(f *testing.F) {
	f.Add([]byte{0, 1, 1})
	f.Add([]byte{4, 5, 0, 0, 9, 0, 0, 0, 0, 1, 9, 200, 3, 7, 6, 6, 1, 1, 1, 0, 0, 4, 9, 0, 0})
	f.Add([]byte{1, 2, 3, 4, 0, 2, 10, 4, 1, 20, 6, 200, 5, 0, 0, 255, 255, 3, 7, 250, 1, 1, 1, 1, 2, 0, 0, 30, 40})
	f.Fuzz(func(t *testing.T, in []byte) {
		next := func() int64 {
			if len(in) == 0 {
				return 0
			}
			v := int64(in[0])
			in = in[1:]
			return v
		}
		// wide reads a number of up to seven bytes; the first says how many.
		wide := func() int64 {
			var b [8]byte
			n := copy(b[:next()%8], in)
			in = in[n:]
			return int64(binary.LittleEndian.Uint64(b[:]))
		}
		all := append(plans, plan{1, 1 + wide()%day}, plan{1 + wide()%1e9, 1 + wide()%day})
		p := all[next()%int64(len(all))]
		burst, slack := int(next()%8), wide()-1
		d := newPair(p, burst, slack%sec)
		for now := base; len(in) > 0; {
			o := op{kind: byte(next() % 11), a: wide() % (100 * day), b: wide() % sec, after: wide() % (100 * day)}
			if now += o.after; now > base+100*year {
				return
			}
			if err := d.apply(now, o); err != nil {
				t.Fatalf("%+v, at %d: %v", o, now-base, err)
			}
		}
	})
}

// The bound holds whenever entries come, however late they are granted, and whoever goes
// in between: at most burst + rate·(w + slack) tokens in any window of length w. Clocks
// show whole nanoseconds, so a window is known to a nanosecond.
func TestNeverOverAndNeverUnder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := anyPlan().Filter(func(p plan) bool { return p.n > 0 }).Draw(t, "plan")
		burst := anyBurst().Draw(t, "burst")
		slack := rapid.SampledFrom([]int64{-1, 1, 3 * ms, 10 * ms}).Draw(t, "slack")
		s := schedule.New(plan.n, plan.span, burst, slack)
		interval := max(1, plan.span/plan.n)
		var all []grant
		free := base // entries queue: none goes before the one that came before it
		for range rapid.IntRange(2, 40).Draw(t, "entries") {
			now := free
			if rapid.Bool().Draw(t, "pause") {
				now += rapid.Int64Range(0, 5*interval).Draw(t, "for")
			}
			cost := rapid.IntRange(1, burst).Draw(t, "cost")
			since := s.Arrive(now)
			at := max(now, s.Due(since, 0, cost))
			if at > base+100*year {
				break
			}
			at += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 20*ms)).Draw(t, "late")
			s.Take(at, since, cost)
			all = append(all, grant{at, cost})
			free = at
			if rapid.Bool().Draw(t, "woke late") {
				free += rapid.Int64Range(1, 20*ms).Draw(t, "by")
				s.Ran(free, at)
			}
		}
		if err := bound(all, plan.n, plan.span, burst, max(slack, 0)); err != nil {
			t.Fatal(err)
		}
	})
	// A loop that is woken late each time, within the slack, still keeps the pace.
	for _, r := range fineRates[:7] {
		s := schedule.New(r.n, r.span, 1, 10*ms)
		now, last := base, base
		for range 1000 {
			since := s.Arrive(now)
			due := s.Due(since, 0, 1)
			if due <= now {
				s.Take(now, since, 1)
				continue
			}
			last = due
			now = due + ms // the system is late
			s.Take(now, since, 1)
			now += 3 * ms // and once more, until the caller runs
			s.Ran(now, now-3*ms)
		}
		want := new(big.Int).Mul(big.NewInt(999), big.NewInt(r.span))
		want.Div(want, big.NewInt(r.n))
		if late := now - base - want.Int64(); late > 4*ms+1 || last < base {
			t.Errorf("%s: a late loop is %d ns behind after 1000 tokens, want at most 4 ms", r.name, late)
		}
	}
}

// Nor is the bound exceeded where it counts when those run who were let go, however late that is, as
// long as those who may not run yet when it is looked at are no more than what the slack is for; and
// if they are more, by no more than that.
func TestNeverOverWhereTheyRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perSecond := rapid.SampledFrom([]int64{7, 300, 999, 1000, 3001}).Draw(t, "per second")
		burst := rapid.SampledFrom([]int{1, 2, 5}).Draw(t, "burst")
		slack := rapid.SampledFrom([]int64{-1, ms, 3 * ms, 10 * ms}).Draw(t, "slack")
		s := schedule.New(perSecond, sec, burst, slack)
		short := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*ms))
		long := rapid.OneOf(short, rapid.Int64Range(0, 20*ms))
		var all []grant // by when they run
		most, now, since := slack, base, base
		for last := base; len(all) < 40; {
			// Of whom it was known by the last time that they run, does not count any more. If all
			// have got to run, it may be known when the last of them did.
			out, home := 0, int64(0)
			for _, g := range all {
				if g.at > last {
					out += g.cost
				}
				home = max(home, g.at)
			}
			if out > 0 {
				if home > now || rapid.Bool().Draw(t, "unknown") {
					home = now
				}
				s.Absent(home, uint64(out))
				most = max(most, (int64(out)*sec-1)/perSecond+1)
			}
			// The system stops; then those run who were let go, and it is looked at again.
			stop := now + long.Draw(t, "stop")
			for cost := 1; s.Due(since, 0, cost) <= now && len(all) < 40; {
				since = max(since, s.Due(since, 0, cost))
				s.Take(now, since, cost)
				at := now
				if rapid.Bool().Draw(t, "stopped") {
					at = stop
				}
				all = append(all, grant{at + short.Draw(t, "delay"), cost})
				cost = rapid.IntRange(1, burst).Draw(t, "cost")
			}
			last, now = now, max(stop, s.Due(since, 0, 1))+short.Draw(t, "late")
		}
		if err := bound(all, perSecond, sec, burst, max(most, 0)); err != nil {
			t.Fatal(err)
		}
	})
	// Who is always late by a little, and runs late by a little, still keeps the pace.
	s := schedule.New(1000, sec, 1, 10*ms)
	s.Take(base, base, 1)
	now, out, since := base, uint64(1), base
	for range 10_000 {
		now = s.Due(since, 0, 1) + 2*ms
		s.Absent(now, out)
		for out = 0; s.Due(since, 0, 1) <= now; out++ {
			since = max(since, s.Due(since, 0, 1))
			s.Take(now, since, 1)
		}
	}
	if due := s.Due(since, 0, 1); due != now+ms {
		t.Errorf("the next one is due in %d ns, want 1 ms: %d were lost", due-now, (due-now-ms)/ms)
	}
}

type grant struct {
	at   int64
	cost int
}

// bound checks all pairs of grants.
func bound(all []grant, n, span int64, burst int, slack int64) error {
	for i := range all {
		for j := range all {
			from, to := all[i].at, all[j].at
			if from > to {
				continue
			}
			tokens := 0
			for _, g := range all {
				if g.at >= from && g.at <= to {
					tokens += g.cost
				}
			}
			most := new(big.Rat).Mul(big.NewRat(n, span), whole(to-from+slack+1))
			if most.Add(most, whole(int64(burst))); whole(int64(tokens)).Cmp(most) > 0 {
				return fmt.Errorf("%d tokens in %d ns, want at most %s", tokens, to-from, most.FloatString(3))
			}
		}
	}
	return nil
}
