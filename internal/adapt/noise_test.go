package adapt_test

import (
	"slices"
	"testing"

	"github.com/escapement-go/escapement/internal/adapt"
)

// median plays a cell with several seeds, and returns the median of each figure, in percent of what is possible.
func (c cell) median(p func() pacer, possible float64) (goodput, throttled float64) {
	var good, thr []float64
	for seed := range uint64(9) {
		c.seed = seed + 1
		o := c.run(p())
		good, thr = append(good, o.goodput()/possible), append(thr, o.share())
	}
	slices.Sort(good)
	slices.Sort(thr)
	return good[len(good)/2], thr[len(thr)/2]
}

// Refusals at random do not slow the client down, however often they come: at least 85 % of what is possible, and not
// less than the plain rule.
func TestRefusalsAtRandom(t *testing.T) { refusalsAtRandom(t) }

var refusalsAtRandom = simulation(func(t *report) {
	for _, share := range []float64{0.001, 0.01, 0.02, 0.05, 0.1} {
		for _, latency := range []float64{0.2, 4, 40} {
			c := cell{latency: latency, told: 1, burst: 1, far: open, stays: true, noise: noise{share: share, callers: 64}}
			goodput, throttled := c.median(c.adaptive, 1-share)
			plain, _ := c.median(func() pacer { return &founding{interval: unit, fastest: unit} }, 1-share)
			if goodput < 85 || goodput < plain-0.5 || throttled > 100*share+3 {
				t.Errorf("%v refused at random, latency %v: goodput %.1f %%, plain rule %.1f %%, throttled %.1f %%", share, latency, goodput, plain, throttled)
			}
		}
	}
})

// One node of ten is out for a while. Neither that nor its return makes a difference for long.
func TestBadNode(t *testing.T) { badNode(t) }

var badNode = simulation(func(t *report) {
	for _, latency := range []float64{4, 40} {
		c := cell{latency: latency, told: 1, burst: 1, far: open, stays: true, noise: noise{share: 0.1, from: 2 * phase, until: 3 * phase, callers: 64}}
		if goodput, _ := c.median(c.adaptive, 1-0.1/4); goodput < 95 {
			t.Errorf("latency %v: goodput %.1f %%", latency, goodput)
		}
	}
})

// A limit is found beside refusals at random, also where it changes.
func TestLimitBesideNoise(t *testing.T) { limitBesideNoise(t) }

var limitBesideNoise = simulation(func(t *report) {
	for _, burst := range bursts {
		for _, latency := range []float64{0.2, 4, 40} {
			for _, stays := range []bool{true, false} {
				c := cell{latency: latency, told: 0.6, burst: burst, far: bucket, stays: stays, noise: noise{share: 0.02, callers: 64}}
				least := 80.0
				if !stays {
					least = 70
				}
				if goodput, throttled := c.median(c.adaptive, 1); goodput < least || throttled > 2+8 {
					t.Errorf("latency %v, burst %v, stays %v: goodput %.1f %%, throttled %.1f %%", latency, burst, stays, goodput, throttled)
				}
			}
		}
	}
})

// noisy returns a line whose far side has been found to refuse every tenth entry, whatever the pace.
func noisy(t *testing.T) *line {
	c := defaults
	c.GiveUp = 0
	l := newLine(t, c)
	for i := range 400 {
		if i%10 == 9 {
			l.s.Throttle(l.grant(), 0)
		} else {
			l.success()
		}
	}
	l.want(500*ms, "every tenth entry is refused")
	return l
}

// A refusal that is no more frequent than noise changes nothing.
func TestNoiseDoesNotCount(t *testing.T) {
	l := noisy(t)
	for range 9 {
		l.success()
	}
	if changed, counts := l.s.Throttle(l.grant(), 0); changed || counts {
		t.Errorf("changed %v, counts %v", changed, counts)
	}
}

// When refusals become more frequent than noise, they count.
func TestMoreThanNoise(t *testing.T) {
	l := noisy(t)
	n := 0
	for counts := false; !counts; n++ {
		l.success()
		_, counts = l.s.Throttle(l.grant(), 0)
	}
	l.want(second, "every other entry is refused")
	if n < 2 || n > 20 {
		t.Errorf("it took %d refusals", n)
	}
}

// A far side that refuses nearly everything is no noise.
func TestMuchIsNoNoise(t *testing.T) {
	c := defaults
	c.GiveUp = 0
	l := newLine(t, c)
	for i := range 300 {
		if i%3 > 0 {
			l.s.Throttle(l.grant(), 0)
		} else {
			l.success()
		}
	}
	if x := l.s.Interval(); x < 10*second {
		t.Errorf("two of three entries are refused: interval %d", x)
	}
}

// A probe of which no more was refused than noise explains is adopted. If it was more, the probe is not adopted, although
// none of its refusals counts as a throttle.
func TestProbeBesideNoise(t *testing.T) {
	l := noisy(t)
	for counts := false; !counts; {
		l.success()
		_, counts = l.s.Throttle(l.grant(), 0)
	}
	l.success()
	known := l.s.Interval()
	for l.s.Interval() == known {
		l.success()
	}
	// probe plays the probe with so many refusals. It reports whether one of these counted, and whether the probe was adopted.
	probe := func(refusals int) (counted, adopted bool) {
		try := *l
		before := try.s.Grant(try.now)
		var marks []uint64
		for range 200 {
			marks = append(marks, try.grant())
		}
		try.s.Success(before)
		try.want(known, "all of the probe is granted")
		after := try.grant()
		for i, mark := range marks {
			if i*refusals/len(marks) < (i+1)*refusals/len(marks) {
				_, counts := try.s.Throttle(mark, 0)
				counted = counted || counts
			} else {
				try.s.Success(mark)
			}
		}
		try.s.Success(after)
		return counted, try.s.Interval() < known
	}
	most := -1
	for counted, adopted := false, true; adopted; most++ {
		if counted, adopted = probe(most + 1); counted {
			t.Fatalf("%d of 200 refused: one of them counts", most+1)
		}
	}
	// A tenth is noise. The control group is small, so less is known of that.
	if most--; most < 200/50 || most > 200/7 {
		t.Errorf("a probe is adopted with up to %d of 200 refused", most)
	}
}

// After many entries without a refusal, noise is forgotten: the next refusal counts.
func TestNoiseIsForgotten(t *testing.T) {
	for _, missing := range []int{0, 1} {
		l := noisy(t)
		for range adapt.Memory - missing {
			l.success()
		}
		if _, counts := l.s.Throttle(l.grant(), 0); counts != (missing == 0) {
			t.Errorf("%d successes: the next refusal counts: %v", adapt.Memory-missing, counts)
		}
	}
}

// GiveUp is reached also where a success lies between now and then, if next to nothing comes back well.
func TestGiveUpWithRareSuccesses(t *testing.T) {
	for _, every := range []int{4, 20} {
		c := defaults
		c.GiveUp = 10
		l := newLine(t, c)
		for i := 1; i <= 60 && !l.s.GaveUp(); i++ {
			if i%every == 0 {
				l.success()
			} else {
				l.throttle()
			}
		}
		if gaveUp := l.s.GaveUp(); gaveUp != (every == 20) {
			t.Errorf("one success in %d: gave up: %v", every, gaveUp)
		}
	}
}
