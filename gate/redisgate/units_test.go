//go:build unix

package redisgate_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Units beside a rate, in three processes. Neither limit is ever exceeded, the scarcer one is used
// up, and shares are even. Where units are not scarce, slots are asked for in bulk.
func TestSharedUnits(t *testing.T) {
	t.Parallel()
	s := newServer(t).settled(12 * time.Second)
	for _, c := range []struct {
		name string
		job
		want  float64 // entries in a second
		trips float64 // for each; of workers that are not warm, some are probes
		far   float64 // from an even share; a batch at the end counts, and that of 20 units one has eight
	}{
		{"the rate is short", job{N: 100, Units: 20, Work: 50 * ms, Callers: 100, For: 7 * time.Second, Warm: 9}, strictly(100), 0.15, 0.12},
		{"half of the units are in use", job{N: 100, Units: 20, Work: 100 * ms, Callers: 100, For: 5 * time.Second, Warm: 9}, strictly(100), 0.5, 0.2},
		{"nearly all units are in use", job{N: 100, Units: 20, Work: 190 * ms, Callers: 100, For: 5 * time.Second}, strictly(100), 2, 0.3},
		{"units are short", job{N: 100, Units: 20, Work: 300 * ms, Callers: 100, For: 5 * time.Second}, 20 / 0.3, 2, 0.35},
		{"units are short, which is not known", job{N: 100, Units: 20, Work: 300 * ms, Callers: 100, For: 5 * time.Second, Warm: 9}, 20 / 0.3, 2, 0.35},
		{"2000", job{N: 2000, Units: 200, Work: 50 * ms, Callers: 300, For: 3 * time.Second}, strictly(2000), 0.1, 0.15},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			judge(t, func(soft *soft) {
				c.job.Addrs, c.job.Kind, c.job.Span, c.job.Key = []string{s.addr()}, "strict", time.Second, key()
				ws := crew(t, 3, c.job)
				soft.crew = ws
				begin(ws)
				most, got := report(t, ws, time.Second)
				if most > c.N {
					t.Errorf("%d in one second, where %d is the limit", most, c.N)
				}
				if units, _, _ := inUse(t, ws); units > c.Units {
					t.Errorf("%d units in use at once, where %d is the limit", units, c.Units)
				}
				all, late, trips := 0, 0, 0
				var halted time.Duration
				for _, w := range ws {
					all += len(w.grants)
					late += w.late
					trips += w.trips
					halted = max(halted, w.halted)
				}
				away := min(halted.Seconds(), c.For.Seconds()) * c.want // what the machine took
				soft.atLeast("entries a second, with what the machine took", got+(float64(late)+away)/c.For.Seconds(), 0.97*c.want)
				soft.atMost("round trips", float64(trips), c.trips*float64(all)+float64(late)+away)
				shares, later := sharesFrom(ws, c.For/4)
				for i, n := range shares {
					soft.atLeast("entries of a worker", float64(n), float64(later)/3-c.far*float64(all)/3-away-float64(late))
					if d := float64(n) - float64(later)/3; math.Abs(d) > c.far*float64(all)/3+away+float64(late) {
						soft.Errorf("worker %d of 3 has had %+.0f of %d entries more than an even share", i+1, d, later)
					}
				}
			})
		})
	}
}

// sharesFrom returns how many entries each worker has had, and all of them, since a time after the first grant. The first
// worker to come may get the slots of a whole horizon, while there is no other.
func sharesFrom(ws []*worker, after time.Duration) (shares []int, all int) {
	first := merged(ws)[0]
	for _, w := range ws {
		n := 0
		for _, at := range w.grants {
			if at >= first+int64(after) {
				n++
			}
		}
		shares, all = append(shares, n), all+n
	}
	return shares, all
}

// However units are asked for, kept and given back, by members of either kind: members never have
// more than there are. None gets a unit that it did not want, and one that waits for units gets
// them in the end.
func TestScriptUnits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rapid.Check(t, func(t *rapid.T) {
		s.fresh()
		const ttl, lead = 1_000_000, 3000
		n := rapid.Int64Range(1, 12).Draw(t, "n")
		type member struct {
			held  int64 // as it knows
			until int64 // of its lease
		}
		ms := make([]member, 3)
		now, epoch := int64(1_790_000_000_000_000), int64(0)
		call := func(i int, used int64, apart, more, idle, likes, starved int64, ops ...any) (taken, again int64) {
			m := &ms[i]
			s.at(nop{}, now, "one", 1000)
			args := append([]any{fmt.Sprint("m", i), 1_000_000, 20_000, 1_000_000, epoch, 0, 0, 0, 0, 0, 0, 0, 2,
				"g", 1_000_000, 1000, 50, 0, 0, 0, 0, 0, 0,
				"c", n, ttl, used, apart, more, idle, lead, likes, starved}, ops...)
			a := s.call(nop{}, args...)
			epoch = a[1]
			if a[9] < 0 {
				t.Fatalf("%d units: what a member keeps is its own", a[9])
			}
			m.held, m.until = used+a[9], now+ttl
			sum := int64(0)
			for _, o := range ms {
				if o.until > now {
					sum += o.held
				}
			}
			if sum > n {
				t.Fatalf("%d units are out, where there are %d", sum, n)
			}
			return a[9], a[13]
		}
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Int64Range(0, 2000), rapid.Int64Range(0, 300_000), rapid.Int64Range(0, ttl)).Draw(t, "after")
			i := rapid.IntRange(0, 2).Draw(t, "member")
			if ms[i].until <= now {
				ms[i].held = 0
			}
			used := rapid.Int64Range(0, ms[i].held).Draw(t, "used")
			idle := rapid.Int64Range(0, used).Draw(t, "idle")
			more := rapid.Int64Range(0, 5).Draw(t, "more")
			likes := rapid.Int64Range(0, 5).Draw(t, "likes")
			count := rapid.Int64Range(0, 5).Draw(t, "count")
			if apart := rapid.Int64Range(0, 1).Draw(t, "apart"); apart == 1 {
				taken, again := call(i, used, 1, more, idle, likes, rapid.Int64Range(0, 1).Draw(t, "starved"), "d", 1, count, 0)
				if taken > more+count+likes || again == 0 && taken < more {
					t.Fatalf("%d units, and again in %d: it needed %d, had %d idle for %d slots, and liked %d", taken, again, more, idle, count, likes)
				}
			} else if taken, _ := call(i, used, 0, 0, 0, 0, 0, "d", 1, count, 0); taken > count {
				t.Fatalf("%d units for %d slots", taken, count)
			}
		}
		// All give back what they have, and each can have everything.
		for i := range ms {
			call(i, 0, 1, 0, 0, 0, 0)
		}
		now += 10 * ttl
		if taken, again := call(1, 0, 1, n, 0, 0, 0); taken != n || again != 0 {
			t.Fatalf("%d of %d units when all have gone, and again in %d", taken, n, again)
		}
	})
}

// A process that has more than its share keeps what it has, also while others have less and lack some:
// its units are in use.
func TestScriptUnitsAboveShare(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, now = 1_000_000, int64(1_790_000_000_000_000)
	call := func(name string, used, more int) int64 {
		s.at(t, now, "one", 1000)
		return s.call(t, name, sec, 20_000, sec, 0, 0, 0, 0, 0, 0, 0, 0, 2, "g", sec, 1000, 50, 0, 0, 0, 0, 0, 0,
			"c", 9, sec, used, 1, more, 0, 3000, 0, 0)[9]
	}
	s.fresh()
	for _, c := range []struct {
		name       string
		used, more int
		want       int64
	}{
		{"a", 0, 5, 5}, {"b", 0, 2, 2}, {"c", 0, 2, 2}, // all nine
		{"b", 2, 3, 0}, {"c", 2, 3, 0},
		{"a", 5, 0, 0}, // not -2
		{"b", 2, 3, 0}, {"c", 2, 3, 0},
		{"a", 4, 0, 0}, // one has left
		{"b", 2, 3, 1}, {"c", 2, 3, 0},
	} {
		if got := call(c.name, c.used, c.more); got != c.want {
			t.Errorf("%s, with %d and in want of %d, is given %d, want %d", c.name, c.used, c.more, got, c.want)
		}
	}
}

// A member that was to wait for slots, and finds then that it lacks units, does not keep the others from these slots.
func TestScriptUnitsInsteadOfSlots(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, start = 1_000_000, int64(1_790_000_000_000_000)
	epoch := int64(0)
	ask := func(name string, at, ahead int64, used, apart, more int) (slots []int64, turn int64) {
		s.at(t, start+at, "one", 1000)
		a := s.call(t, name, sec, 20_000, ahead, epoch, 0, 0, 0, 0, 0, 0, 0, 2, "g", sec, 100, 1, 0, 0, 0, 0, 0, 0,
			"c", 2, sec, used, apart, more, 0, 3000, 0, 0, "d", 1, 200, 0)
		epoch = a[1]
		return a[22:], s.turn
	}
	s.fresh()
	if got, _ := ask("a", 0, sec, 0, 1, 2); len(got) != 101 {
		t.Fatalf("a is given %d slots, want those of the horizon", len(got))
	}
	if got, turn := ask("b", 1000, sec, 0, 1, 0); len(got) != 0 || turn == 0 {
		t.Fatalf("b is given the slots %v and the turn %d, want only a turn", got, turn)
	}
	if got, turn := ask("b", 991_000, 20_000, 0, 0, 0); len(got) != 0 || turn != 0 {
		t.Errorf("b is given the slots %v and the turn %d, want none where there is no unit", got, turn)
	}
	if got, _ := ask("a", 992_000, 20_000, 0, 0, 0); len(got) != 1 {
		t.Errorf("a is given the slots %v, want one: b lacks a unit, and does not wait for a slot", got)
	}
}

// A call that its process has given up, and has made another one since, may still arrive. What it says of
// units is out of date, and it changes nothing.
func TestScriptLateCall(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const sec, now = 1_000_000, int64(1_790_000_000_000_000)
	s.fresh()
	s.at(t, now, "one", 1000)
	args := func(name string, used, want int) []any {
		return []any{name, sec, 20_000, sec, 0, 0, 0, 0, 0, 0, 0, 0, 1, "c", 5, sec, used, 0, 0, 0, 0, 0, 0, "d", 1, want, 0}
	}
	units := func(a []int64) int64 { return a[9] }
	if got := units(s.late(t, 1, args("a", 0, 1)...)); got != 1 {
		t.Fatalf("%d units of five, want the one that was asked for", got)
	}
	if got := units(s.late(t, 3, args("a", 1, 3)...)); got != 3 {
		t.Fatalf("%d units more, want 3", got)
	}
	for _, number := range []int{2, 3} {
		if a := s.late(t, number, args("a", 1, 1)...); len(a) > 0 {
			t.Errorf("call %d after call 3 is answered, with %d units", number, units(a))
		}
	}
	if got := units(s.late(t, 1, args("b", 0, 5)...)); got != 1 {
		t.Errorf("b is given %d units, where 4 of 5 are in use", got)
	}
	if got := units(s.late(t, 4, args("a", 0, 1)...)); got > 1 {
		t.Errorf("a is given %d units for one entry", got)
	}
}
