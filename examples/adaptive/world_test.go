package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const unit = time.Millisecond

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range worlds() {
		if seen[w.name] {
			t.Errorf("two worlds are called %s", w.name)
		}
		seen[w.name] = true
		if w.counts[0] < 0 || w.counts[0] >= w.counts[1] || w.counts[1] > w.length {
			t.Errorf("%s counts from %v to %v, of %v", w.name, w.counts[0], w.counts[1], w.length)
		}
	}
}

func TestPossible(t *testing.T) {
	for _, tt := range []struct {
		name string
		want float64
	}{
		{"limit/0.2/burst/1/1.00x", 1800 + 1000 + 2000},
		{"costly/window/5/4.00x", 5800},
		{"costly-moving/bucket/5/1.67x", 1800 + 1000 + 2000 + 1000 + 2000 + 1000},
		{"random/64/20ms/10%", 9800 * 0.9},
		{"random/1/20ms/10%", 9800 * 0.9 / 4},
		{"random/8/200ms/10%", 9800 * 0.9 * 8 / 40},
		{"both/64/20ms/burst/1", 9800 * 0.6},
		{"moving/64/200ms/burst/5/1.00x", 3800*0.99 + 4000*0.5 + 4000*0.99 + 4000*0.5},
		{"moving/64/200ms/burst/5/1.67x", 3800 + 4000*0.5 + 4000 + 4000*0.5},
		{"others/64/20ms/1.67x", 3800 + 4000*0.5 + 4000*0.75 + 4000},
		{"node/64/20ms/during", 12000 * 0.9},
		{"node/64/20ms/after", 11000},
	} {
		if got := find(tt.name).possible(); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: %v calls, want %v", tt.name, got, tt.want)
		}
	}
	w := find("node/64/20ms/during")
	w.counts = [2]float64{11000, 25000}
	if got := w.possible(); got != 12800 {
		t.Errorf("a minute of refusals and ten seconds around it: %v calls, want 12800", got)
	}
	w = find("others/64/20ms/1.67x")
	for _, tt := range []struct{ at, interval, until float64 }{{0, 1, 4000}, {4000, 2, 8000}, {8000, 1 / 0.75, 12000}, {12000, 1, math.Inf(1)}} {
		if interval, until := w.allows(tt.at); interval != tt.interval || until != tt.until {
			t.Errorf("at %v: %v until %v, want %v until %v", tt.at, interval, until, tt.interval, tt.until)
		}
	}
}

// arrival is a call and what the far side must do with it.
type arrival struct {
	at    float64 // units
	ok    bool
	after time.Duration
}

func (w world) check(t *testing.T, c call, arrivals ...arrival) {
	t.Helper()
	far := w.farSide(1)
	for _, a := range arrivals {
		if ok, after := far.take(w.span(a.at), c); ok != a.ok || after != a.after {
			t.Errorf("at %v: %v, %v; want %v, %v", a.at, ok, after, a.ok, a.after)
		}
	}
}

func TestBucket(t *testing.T) {
	w := world{unit: unit, limits: steps{10, []float64{1, 2}}, burst: 2}
	w.check(t, call{},
		arrival{0, true, 0}, arrival{0, true, 0}, arrival{0, false, unit},
		arrival{0.999, false, unit}, arrival{1, true, 0},
		arrival{9, true, 0}, arrival{9, true, 0}, arrival{9.5, false, unit},
		arrival{11, true, 0},         // one until 10, and half of one after that
		arrival{11.999, false, unit}, // half of one, and half of one
		arrival{12, true, 0}, arrival{13, false, unit}, arrival{14, true, 0})
}

func TestWindow(t *testing.T) {
	w := world{unit: unit, limits: steps{110, []float64{50, 100}}, window: true}
	w.check(t, call{},
		arrival{0, true, 0}, arrival{30, true, 0}, arrival{60, false, 40 * unit}, arrival{99, false, unit},
		arrival{100, true, 0}, arrival{109, false, 21 * unit},
		arrival{110, false, 90 * unit}, // one in 100 from here on
		arrival{200, true, 0}, arrival{299, false, unit}, arrival{300, true, 0})
}

func TestNoise(t *testing.T) {
	w := world{unit: unit, noise: noise{1, 10, 20}}
	w.check(t, call{}, arrival{9.9, true, 0}, arrival{10, false, 1}, arrival{19.9, false, 1}, arrival{20, true, 0})
	// What is refused at random does not count against the limit.
	w = world{unit: unit, limits: always(10), burst: 1, noise: noise{1, 0, 20}}
	w.check(t, call{}, arrival{0, false, 1}, arrival{19, false, 1}, arrival{20, true, 0}, arrival{20, false, unit})
	w = find("random/64/20ms/10%")
	far, refused := w.farSide(1), 0
	for range 100000 {
		if ok, _ := far.take(0, call{}); !ok {
			refused++
		}
	}
	if refused < 9700 || refused > 10300 {
		t.Errorf("%d of 100,000 are refused, want a tenth", refused)
	}
}

func TestItems(t *testing.T) {
	w := world{unit: unit, items: 0.01}
	w.check(t, call{bad: true}, arrival{0, false, 1}, arrival{1000, false, 1})
	w.check(t, call{}, arrival{0, true, 0}, arrival{0, true, 0})
}

// Other clients leave the rest.
func TestOthers(t *testing.T) {
	w := world{unit: unit, limits: always(1), burst: 5, others: steps{10000, []float64{0.5, 0, 0.25}}}
	far, well := w.farSide(1), [3]int{}
	for i := range 60000 {
		if ok, _ := far.take(w.span(float64(i)/2), call{}); ok {
			well[i/20000]++
		}
	}
	for i, want := range []int{5000, 10000, 7500} {
		if math.Abs(float64(well[i]-want)) > 0.03*float64(want) {
			t.Errorf("%d calls of the phase %d are let through, want about %d", well[i], i, want)
		}
	}
}

// A caller drops an item after 20 throttles, and sleeps for the longer one of the hint and the backoff.
func TestProgram(t *testing.T) {
	w := world{unit: unit, callers: 2, items: 1, hint: time.Second}
	p := w.program(1)
	c := p.take()
	if p.take(); p.some() {
		t.Error("three callers, want two")
	}
	p.put(c)
	if !p.some() {
		t.Error("no caller is ready, want one")
	}
	longest := time.Duration(0)
	for i := range 40 {
		pause := p.back(&c, false, time.Second)
		longest = max(longest, pause)
		switch dropped := i%20 == 19; {
		case dropped && (pause != 0 || c.throttles != 0):
			t.Errorf("throttle %d: %v until the next item, which has %d throttles", i+1, pause, c.throttles)
		case !dropped && (pause < time.Second || c.throttles != i%20+1):
			t.Errorf("throttle %d: a pause of %v, %d throttles", i+1, pause, c.throttles)
		}
	}
	c.throttles = 0
	for longest := 100 * time.Millisecond; longest < 30*time.Second; longest *= 2 {
		if pause := p.back(&c, false, 0); pause > longest {
			t.Errorf("throttle %d: a pause of %v, want at most %v", c.throttles, pause, longest)
		}
	}
	if longest < 20*time.Second || longest > 30*time.Second {
		t.Errorf("the longest pause is %v, want almost 30s", longest)
	}
	w.items = 0
	p = w.program(1)
	c = p.take()
	for i := range 40 {
		if pause := p.back(&c, false, 7*time.Second); pause != 7*time.Second {
			t.Errorf("throttle %d: a pause of %v, want that of the hint", i+1, pause)
		}
	}
	if pause := p.back(&c, true, 0); pause != 0 {
		t.Errorf("a success: a pause of %v", pause)
	}
}

// eager makes calls as soon as it can, and checks what the world does with them.
type eager struct {
	t                *testing.T
	now              *virtual
	world            world
	underWay, most   int
	calls            int
	throttled, woken []time.Duration
	hint             time.Duration
}

func (e *eager) interval() time.Duration { return 0 }
func (e *eager) next() time.Duration     { return 0 }
func (e *eager) enter() (leave func(bool, time.Duration)) {
	e.calls++
	e.underWay++
	e.most = max(e.most, e.underWay)
	if len(e.throttled) > 0 {
		e.woken = append(e.woken, e.now.at)
	}
	began := e.now.at
	return func(well bool, after time.Duration) {
		e.underWay--
		if took := e.now.at - began; took != e.world.span(e.world.latency) {
			e.t.Errorf("a call takes %v", took)
		}
		if !well {
			e.throttled = append(e.throttled, e.now.at)
			e.hint = after
		}
	}
}

// Each caller has one call under way, a call takes a round trip, and what counts is counted.
func TestCallers(t *testing.T) {
	w := world{unit: unit, callers: 3, latency: 10, length: 1000, counts: [2]float64{100, 200}}
	now := new(virtual)
	e := &eager{t: t, now: now, world: w}
	if o := w.play(now, e, 1); o != (count{well: 30}) || e.most != 3 || e.calls != 300 {
		t.Errorf("%+v, %d calls, %d at once at most", o, e.calls, e.most)
	}
}

// A caller that was refused sleeps for the hint, which is a multiple of that of the world.
func TestHint(t *testing.T) {
	w := world{unit: unit, callers: 1, latency: 10, length: 1000, hint: 70 * unit,
		limits: always(100), burst: 1, window: true, counts: [2]float64{0, 1000}}
	now := new(virtual)
	e := &eager{t: t, now: now, world: w}
	w.play(now, e, 1)
	// The second call arrives at 15, and 90 is the time until another one is let through.
	if e.hint != 140*unit {
		t.Errorf("a hint of %v", e.hint)
	}
	if e.throttled[0] != 20*unit || e.woken[0] != 160*unit {
		t.Errorf("throttled at %v, and back at %v", e.throttled[0], e.woken[0])
	}
}

// Events come in the order of their instants, and in that of arrival if these are the same.
func TestEvents(t *testing.T) {
	type item struct {
		at    time.Duration
		order int
	}
	rng := rand.New(rand.NewPCG(1, 0))
	var q events
	var want, got []item
	pop := func() {
		e, at := q.pop()
		got = append(got, item{at, e.call.throttles})
	}
	for round := range 100 {
		// All of a round come after those of the round before, so that they can be sorted together.
		for range rng.IntN(50) {
			x := item{time.Duration(100*round + rng.IntN(20)), len(want)}
			want = append(want, x)
			q.push(event{call: call{throttles: x.order}}, x.at)
		}
		for range rng.IntN(50) {
			if !q.empty() && q.first() < time.Duration(100*round) {
				pop()
			}
		}
	}
	for !q.empty() {
		pop()
	}
	slices.SortStableFunc(want, func(a, b item) int { return cmp.Compare(a.at, b.at) })
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// The tails are 1 on average.
func TestTails(t *testing.T) {
	for _, tail := range []tail{none, logNormal, pareto} {
		rng := rand.New(rand.NewPCG(1, 0))
		total, n := 0.0, 1000000
		for range n {
			total += tail.draw(rng)
		}
		if mean := total / float64(n); math.Abs(mean-1) > 0.02 {
			t.Errorf("%v: %v on average", tail, mean)
		}
	}
}

// The SDKs' rate falls to 0.7 of what was measured, and comes back along a cubic curve.
func TestCubic(t *testing.T) {
	now := new(virtual)
	w := world{unit: 5 * time.Millisecond, told: 1}
	c := newCubic(now, w).(*cubic)
	call := func(well bool) {
		now.at += c.next()
		c.enter()(well, time.Minute)
	}
	for range 2000 {
		if call(true); c.interval() != w.asked() {
			t.Fatalf("an interval of %v before the first throttle", c.interval())
		}
	}
	call(false)
	if got := 1 / c.interval().Seconds(); math.Abs(got-140) > 1 {
		t.Errorf("%v calls a second after a throttle at 200, want 140", got)
	}
	throttled := now.at
	// 0.4·(t − K)³ + 200 with a K of ∛(200·0.3/0.4) seconds.
	for _, tt := range []struct{ seconds, rate float64 }{{1, 0.4*math.Pow(1-5.3133, 3) + 200}, {3, 0.4*math.Pow(3-5.3133, 3) + 200}, {5.3, 200}} {
		for now.at < throttled+time.Duration(tt.seconds*float64(time.Second)) {
			call(true)
		}
		if got := c.fillRate; math.Abs(got-tt.rate) > 3 {
			t.Errorf("%v calls a second after %v s, want %v", got, tt.seconds, tt.rate)
		}
	}
	for range 100 {
		call(false)
	}
	if c.fillRate != minFillRate {
		t.Errorf("%v calls a second after a hundred throttles, want %v", c.fillRate, minFillRate)
	}
}

// The fixed pace gets all that is possible, or all but the share that is refused at random.
func TestFixed(t *testing.T) {
	for _, name := range []string{"limit/0.2/burst/1/1.67x", "costly-moving/bucket/0.2/4.00x", "random/64/20ms/0.1%", "both/64/20ms/burst/1"} {
		w := find(name)
		o, share := w.row([]kind{newFixed}, 1).outcomes[0], 100*w.noise.share
		if o.goodput < 99.5-share || o.goodput > 100.5 || math.Abs(o.throttled-share) > 0.5 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// The plain rule doubles once a generation, and keeps away for as long as it is told.
func TestFounding(t *testing.T) {
	now := new(virtual)
	f := newFounding(now, world{unit: unit, told: 1, slowest: 3 * unit})
	a, b := f.enter(), f.enter()
	a(false, 10*unit)
	b(false, 0)
	if f.interval() != 2*unit || f.next() != 10*unit {
		t.Errorf("two throttles of a generation: an interval of %v, due in %v", f.interval(), f.next())
	}
	c := f.enter()
	a(true, 0)
	if f.interval() != 2*unit {
		t.Errorf("a success of the generation before: an interval of %v", f.interval())
	}
	c(true, 0)
	if f.interval() != 18*unit/10 {
		t.Errorf("a success: an interval of %v", f.interval())
	}
	f.enter()(false, 0)
	if f.interval() != 3*unit {
		t.Errorf("a throttle: an interval of %v, want the slowest", f.interval())
	}
}
