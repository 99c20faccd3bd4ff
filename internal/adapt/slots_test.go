package adapt_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/adapt"
)

// played is how the Slots did in a cell, and how the client that knows the number of slots did. With few slots chance
// has a part, so that is the sum of three runs.
type played struct {
	cell         slotCell
	ours, theirs slotOutcome
}

func (p played) goodput() float64 { return 100 * float64(p.ours.well) / float64(p.theirs.well) }

func (p played) String() string {
	return fmt.Sprintf("%+v: goodput %.1f %%, refused %.1f %%; the client that knows: %.1f %% refused", p.cell, p.goodput(), p.ours.share(), p.theirs.share())
}

// play plays the cells.
func play(cells []slotCell) (all []played) {
	for _, c := range cells {
		p := played{cell: c}
		runs := uint64(3)
		if c.slots > 20 {
			runs = 1
		}
		for seed := range runs {
			c.seed = seed + 1
			p.ours.add(c.run(c.limiter()))
			p.theirs.add(c.run(&knowing{cell: c}))
		}
		all = append(all, p)
	}
	return all
}

// The far sides that refuse by the number of calls alone.
var hidden = sync.OnceValue(func() []played {
	var cells []slotCell
	for _, slots := range []int64{4, 20, 100} {
		for _, spread := range []spread{even, near, tails} {
			for _, latency := range []float64{0.2, 5, 20, 50} {
				if latency < 20 && slots == 100 || latency < 5 && slots == 20 {
					continue // a phase has 400 round trips, as for 4 slots
				}
				for _, most := range []float64{1, 4} {
					cells = append(cells, slotCell{slots: slots, latency: latency, spread: spread, most: most})
				}
			}
		}
	}
	return play(cells)
})

// At least 90 % of what is possible, and at most 5 % refused.
func TestSlotsTargets(t *testing.T) {
	for _, p := range hidden() {
		if p.goodput() < 90 || p.ours.share() > 5 {
			t.Error(p)
		}
	}
}

// Where some calls are refused whatever their number, at least 85 % of what is possible. Alone, 3 % more are
// refused than that share; with a limit on slots, 5 % more.
func TestSlotsNoise(t *testing.T) { slotsNoise(t) }

var slotsNoise = simulation(func(t *report) {
	var cells []slotCell
	for _, noise := range []float64{0.001, 0.01, 0.02, 0.05, 0.1} {
		for _, latency := range []float64{5, 20} {
			cells = append(cells,
				slotCell{slots: 64, latency: latency, spread: near, most: 1, stays: true, noise: noise},
				slotCell{slots: 64, latency: latency, spread: near, most: 1, stays: true, noise: noise, slow: true},
				slotCell{slots: 64, latency: latency, spread: near, most: 2, stays: true, noise: noise},
			)
		}
	}
	for _, p := range play(cells) {
		more := 3.0
		if p.cell.most > 1 {
			more = 5
		}
		if p.goodput() < 85 || p.ours.share() > 100*p.cell.noise+more {
			t.Error(p)
		}
	}
})

// A client that begins far above the number of slots has only answers that tell nothing: at lower limits there are
// none, and at higher ones the limit was the cause. What is refused at the proven limit tells the noise then.
func TestSlotsNoiseAfterAnOverload(t *testing.T) {
	for seed := range uint64(4) {
		c := slotCell{slots: 64, latency: 20, spread: near, most: 2, stays: true, noise: 0.1, slow: true, seed: 200 + seed}
		if o, known := c.run(c.limiter()), c.run(&knowing{cell: c}); o.well < known.well*85/100 {
			t.Errorf("%+v: %d calls well, want 85 %% of %d", c, o.well, known.well)
		}
	}
}

// Where a far side gets slow in place of refusing, a ceiling on latency keeps the goodput, and few calls exceed it.
func TestSlotsCeiling(t *testing.T) { slotsCeiling(t) }

var slotsCeiling = simulation(func(t *report) {
	var cells []slotCell
	for _, spread := range []spread{even, near} {
		for _, ceiling := range []float64{2, 4} {
			for _, latency := range []float64{5, 10} {
				cells = append(cells, slotCell{slots: 20, latency: latency, spread: spread, most: 4 * ceiling, queue: true, ceiling: ceiling})
			}
		}
	}
	for _, p := range play(cells) {
		if p.goodput() < 90 || p.ours.share() > 6 {
			t.Error(p)
		}
	}
})

// Which entries are late depends on nothing but when they were granted and left, so a test on a mock clock goes the same
// way each time it is run. The origin of a clock's timeline differs between processes.
func TestSlotsOfAnotherOrigin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ceiling := rapid.OneOf(rapid.Int64Range(1, 1<<12), rapid.Int64Range(1, 1<<50)).Draw(t, "ceiling")
		c := adapt.SlotsConfig{Most: 1000, Backoff: 2, Latency: ceiling}
		one, other := adapt.NewSlots(c), adapt.NewSlots(c)
		later := rapid.Int64Range(0, 1<<61).Draw(t, "origin")
		var now int64
		for i := range int64(rapid.IntRange(1, 60).Draw(t, "entries")) {
			now += rapid.Int64Range(0, ceiling).Draw(t, "pause")
			mark, same := one.Grant(now, 1, i+1), other.Grant(later+now, 1, i+1)
			now += rapid.Int64Range(ceiling-ceiling/500, ceiling+ceiling/250+4).Draw(t, "time")
			one.Success(now, mark, 1)
			other.Success(later+now, same, 1)
			if one.Limit() != other.Limit() || one.Fresh() != other.Fresh() {
				t.Fatalf("entry %d: limits %d and %d", i, one.Limit(), other.Limit())
			}
		}
	})
}

// In an incident in which calls are too slow, however few there are, the limit goes down and stays there. It must not
// drift up, as it does where the present latency is compared with an average of earlier ones. Afterwards it comes
// back. With tails, a third of the calls are in time all the same.
func TestSlotsIncident(t *testing.T) {
	for _, spread := range []spread{even, near, tails} {
		c := slotCell{slots: 20, latency: 5, spread: spread, most: 4, queue: true, ceiling: 4, slower: 10, seed: 1}
		l := &watched{Slots: c.limiter(), from: c.phase() * 3 / 2, until: 2 * c.phase()}
		o := c.run(l)
		most := int64(2)
		if spread == tails {
			most = 5
		}
		if l.most > most {
			t.Errorf("%v: the limit was up to %d in the incident", c, l.most)
		}
		known := c.run(&knowing{cell: c})
		if o.third < known.third*85/100 {
			t.Errorf("%v: %d calls after the incident, want 85 %% of %d", c, o.third, known.third)
		}
	}
}

// watched notes the highest limit in a span.
type watched struct {
	*adapt.Slots
	from, until int64
	most        int64
}

func (w *watched) see(now int64) {
	if now >= w.from && now < w.until {
		w.most = max(w.most, w.Limit())
	}
}
func (w *watched) Success(now int64, mark uint64, cost int64) bool {
	defer w.see(now)
	return w.Slots.Success(now, mark, cost)
}
func (w *watched) Refused(now int64, mark uint64, after int64) (changed, counts bool) {
	defer w.see(now)
	return w.Slots.Refused(now, mark, after)
}

// The plain rule is what makes the rest worth its lines: half of the limit when refused, once a generation, and one
// more with each round trip.
func TestPlainSlotsDoNot(t *testing.T) {
	poor := 0
	for _, noise := range []float64{0, 0.01, 0.05} {
		c := slotCell{slots: 20, latency: 20, spread: near, most: 1, stays: noise > 0, noise: noise, seed: 1}
		o, known := c.run(&plainSlots{limit: 20, most: 20}), c.run(&knowing{cell: c})
		if 100*o.well < 85*known.well {
			poor++
		}
	}
	if poor == 0 {
		t.Error("the plain rule does as well")
	}
}

type plainSlots struct {
	limit, most, generation, well int64
}

func (p *plainSlots) Limit() int64                     { return p.limit }
func (p *plainSlots) Grant(int64, int64, int64) uint64 { return uint64(p.generation) }
func (p *plainSlots) Success(_ int64, mark uint64, _ int64) bool {
	if int64(mark) == p.generation {
		if p.well++; p.well >= p.limit {
			p.limit, p.well = min(p.limit+1, p.most), 0
		}
	}
	return false
}
func (p *plainSlots) Refused(_ int64, mark uint64, _ int64) (changed, counts bool) {
	if int64(mark) == p.generation {
		p.limit, p.well = max(p.limit/2, 1), 0
		p.generation++
	}
	return false, true
}

// Whatever comes back in whatever order: the limit stays within its bounds; only an entry of the present generation
// makes it smaller; the first refusal, with nothing known, divides what was in use; and after Reset it is new.
func TestSlotsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.OneOf(rapid.Int64Range(1, 40), rapid.Int64Range(1, 1<<40)).Draw(t, "most")
		least := rapid.Int64Range(1, min(most, 1<<20)).Draw(t, "least")
		backoff := rapid.Float64Range(1.0001, 1e9).Draw(t, "backoff")
		ceiling := rapid.SampledFrom([]int64{0, 1, 999, 1e9, math.MaxInt64}).Draw(t, "ceiling")
		s := adapt.NewSlots(adapt.SlotsConfig{Most: most, Least: least, Backoff: backoff, Latency: ceiling})
		type entry struct {
			mark       uint64
			cost, at   int64
			generation int
			full       bool // it left no room for another one
		}
		var flying []entry
		now, used, generation, refused := int64(1)<<62, int64(0), 0, false
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(t, "n") {
					cost := rapid.Int64Range(1, min(most, 5)).Draw(t, "cost")
					if used > 0 && used+cost > s.Limit() {
						return
					}
					used += cost
					flying = append(flying, entry{s.Grant(now, cost, used), cost, now, generation, used+cost > s.Limit()})
				}
			},
			"leave": func(t *rapid.T) {
				for range min(len(flying), rapid.IntRange(1, 30).Draw(t, "n")) {
					i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
					e := flying[i]
					flying = append(flying[:i], flying[i+1:]...)
					before, took := s.Limit(), now-e.at
					var changed, counts bool
					switch rapid.IntRange(0, 6).Draw(t, "how") {
					case 0:
						if !refused && e.generation == generation && s.Fresh() {
							refused = true
						}
						changed, counts = s.Refused(now, e.mark, rapid.SampledFrom([]int64{0, 0, 1, 1e9, math.MaxInt64}).Draw(t, "after"))
					case 1: // of its own
					default:
						changed = s.Success(now, e.mark, e.cost)
						if s.Limit() < before && (ceiling == 0 || took <= ceiling) {
							t.Fatalf("a success in time makes the limit %d, it was %d", s.Limit(), before)
						}
					}
					used -= e.cost
					after := s.Limit()
					if changed && after < before && took <= ceiling && !counts {
						t.Fatalf("a refusal that does not count makes the limit %d, it was %d", after, before)
					}
					if after < least || after > most {
						t.Fatalf("limit %d is not from %d to %d", after, least, most)
					}
					if changed != (after != before) {
						t.Fatalf("changed is %v from %d to %d", changed, before, after)
					}
					if after > before && !e.full {
						t.Fatalf("an entry that left slots free makes the limit %d, it was %d", after, before)
					}
					if after < before {
						if e.generation != generation {
							t.Fatalf("an entry of an earlier generation makes the limit %d, it was %d", after, before)
						}
						generation++
					}
				}
			},
			"wait": func(t *rapid.T) { now += rapid.SampledFrom([]int64{0, 1, 1e3, 1e6, 1e9, 1e12}).Draw(t, "d") },
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					s.Reset()
					generation++
					if s.Limit() != most || !s.Fresh() {
						t.Fatalf("limit %d after Reset, fresh: %v", s.Limit(), s.Fresh())
					}
				}
			},
			"": func(t *rapid.T) {},
		})
	})
}

// client makes waves of entries at a Slots.
type client struct {
	t *testing.T
	s adapt.Slots
}

func newClient(t *testing.T, c adapt.SlotsConfig) *client { return &client{t, adapt.NewSlots(c)} }

// wave grants as many entries as the limit allows, and leaves the first of them refused and the others well.
func (c *client) wave(refused int) {
	n := c.s.Limit()
	var marks []uint64
	for i := range n {
		marks = append(marks, c.s.Grant(0, 1, i+1))
	}
	for i, m := range marks {
		if i < refused {
			c.s.Refused(0, m, 0)
		} else {
			c.s.Success(0, m, 1)
		}
	}
}

// limits makes so many waves in which all goes well, and expects these limits after each of them.
func (c *client) limits(want ...int64) {
	c.t.Helper()
	for i, want := range want {
		c.wave(0)
		if got := c.s.Limit(); got != want {
			c.t.Fatalf("limit %d after wave %d, want %d", got, i+1, want)
		}
	}
}

func (c *client) refused(n int, want int64) {
	c.t.Helper()
	c.wave(n)
	if got := c.s.Limit(); got != want {
		c.t.Fatalf("limit %d after %d refusals, want %d", got, n, want)
	}
}

// A limit that is not known is found by halves, and a trial that fails brings the proven one back at once.
func TestSlotsSteps(t *testing.T) {
	c := newClient(t, adapt.SlotsConfig{Most: 64, Least: 1, Backoff: 2})
	c.refused(40, 32)
	c.refused(20, 16)
	c.limits(24)
	c.refused(1, 16)         // the trial failed
	c.limits(16, 20, 22, 23) // 20 successes have paid for one refusal
	c.refused(1, 22)
	c.limits(24, 28, 36, 52, 64, 64) // nothing is known to fail any more: in growing steps
}

// When the proven limit fails, the one before it comes back if it was proven lately. Otherwise it shrinks by a
// tenth, and by Backoff if that fails, too.
func TestSlotsProvenFails(t *testing.T) {
	start := func() *client {
		c := newClient(t, adapt.SlotsConfig{Most: 64, Least: 1, Backoff: 2})
		c.refused(1, 32)
		c.limits(48, 56, 60, 62, 63, 64)
		return c
	}
	c := start()
	c.limits(64)
	c.refused(20, 63)
	c.refused(40, 31)
	c = start()
	for range 10 {
		c.wave(0)
	}
	c.refused(20, 58)
	c.refused(40, 29)
}

// What was in use is proven, and no more: a trial is not proven by entries from before it was full.
func TestSlotsProveWhatWasInUse(t *testing.T) {
	c := newClient(t, adapt.SlotsConfig{Most: 16, Least: 1, Backoff: 2})
	c.refused(16, 8)
	c.limits(12)
	few := func(n int64) (marks []uint64) {
		for i := range n {
			marks = append(marks, c.s.Grant(0, 1, i+1))
		}
		return marks
	}
	for range 100 {
		for _, m := range few(7) {
			c.s.Success(0, m, 1)
		}
	}
	for _, m := range few(6) {
		c.s.Success(0, m, 1)
	}
	if got := c.s.Limit(); got != 12 {
		t.Fatalf("limit %d, want 12", got)
	}
	marks := few(12)
	for _, m := range marks[1:7] {
		c.s.Success(0, m, 1)
	}
	c.s.Refused(0, marks[0], 0)
	if got := c.s.Limit(); got != 8 {
		t.Errorf("limit %d after a trial that failed, want 8", got)
	}
	c.limits(8, 8, 10) // it is still proven, and three waves pay for the trial
}

// Entries of 4 slots leave some free that are too few for another one. The limit grows all the same.
func TestSlotsOfHeavyEntries(t *testing.T) {
	s := adapt.NewSlots(adapt.SlotsConfig{Most: 16, Least: 1, Backoff: 2})
	for wave := range 20 {
		var marks []uint64
		for used := int64(4); used <= s.Limit(); used += 4 {
			marks = append(marks, s.Grant(0, 4, used))
		}
		for _, m := range marks {
			if wave == 0 {
				s.Refused(0, m, 0)
			} else {
				s.Success(0, m, 4)
			}
		}
	}
	if got := s.Limit(); got != 16 {
		t.Errorf("limit %d, want 16", got)
	}
}

// Once noise is known, a refusal that is noise does not count, whichever its generation.
func TestSlotsNoiseDoesNotCount(t *testing.T) {
	c := newClient(t, adapt.SlotsConfig{Most: 40, Least: 1, Backoff: 2})
	first := c.s.Grant(0, 1, 1)
	for range 50 {
		c.wave(int(c.s.Limit()) / 16)
	}
	if _, counts := c.s.Refused(0, c.s.Grant(0, 1, 1), 0); counts {
		t.Error("a refusal of the present generation counts")
	}
	if _, counts := c.s.Refused(0, first, 0); counts {
		t.Error("a refusal of an earlier generation counts")
	}
}

// A trial whose refusal told to stay away is not repeated for 16 times as long.
func TestSlotsCostlyTrial(t *testing.T) {
	c := newClient(t, adapt.SlotsConfig{Most: 64, Least: 1, Backoff: 2})
	trial := func(after int64) {
		t.Helper()
		c.refused(64, 32)
		c.limits(48)
		c.s.Refused(1000, c.s.Grant(0, 1, 33), after)
		if got := c.s.Limit(); got != 32 {
			t.Fatalf("limit %d after the trial, want 32", got)
		}
	}
	trial(math.MaxInt64)
	c.limits(32, 32, 32)
	c.s.Reset()
	trial(100)
	for _, at := range []int64{1100, 2000, 2699, 2700} {
		var marks []uint64
		for i := range int64(32) {
			marks = append(marks, c.s.Grant(at, 1, i+1))
		}
		for _, m := range marks {
			c.s.Success(at, m, 1)
		}
		want := int64(32)
		if at == 2700 {
			want = 40
		}
		if got := c.s.Limit(); got != want {
			t.Errorf("limit %d at %d, want %d", got, at, want)
		}
	}
}
