package adapt_test

import (
	"math"
	"testing"
)

// What was forgotten stays so, however often it is throttled before anything comes back well.
func TestForgottenForGood(t *testing.T) {
	for n := 1; n < 5; n++ {
		l := newLine(t, defaults)
		found(l)
		failed := l.s.Interval()
		for i := range n {
			l.throttle()
			l.want(failed<<(i+1), "throttled")
		}
		l.success()
		l.want(int64(math.Round(float64(failed<<n)*0.9)), "success")
		l.descend()
	}
}

// What was known before a probe comes back when the probe's interval fails, and is lengthened when it fails, too.
func TestKnownFailsAfterAWrongProbe(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	known := l.s.Interval()
	for l.s.Interval() == known {
		l.success()
	}
	for trial := l.s.Interval(); l.s.Interval() == trial; {
		l.success()
	}
	for range 2 { // the next probe fails, and then what the first had found
		l.throttle()
		l.success()
	}
	l.want(known, "what was known before")
	l.throttle()
	l.success()
	l.want(int64(math.Round(float64(known)*math.Pow(0.9, -1.0/3))), "that fails, too")
}

// A probe counts as long as its entries come within twice the time that they need at its interval,
// and one known interval.
func TestProbeIsIdleFromWhen(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	known := l.s.Interval()
	for l.s.Interval() == known {
		l.success()
	}
	trial, length := l.s.Interval(), int64(0)
	for try := *l; try.s.Interval() == trial; length++ {
		try.success()
	}
	for late, adopted := range map[int64]bool{-1: true, 0: true, 1: false} {
		try := *l
		first := try.s.Grant(try.now)
		try.s.Success(first)
		for range length - 2 {
			try.s.Success(try.s.Grant(try.now))
		}
		try.now += known + 2*length*trial + late
		try.s.Success(try.s.Grant(try.now))
		if got := try.s.Interval() < known; got != adopted {
			t.Errorf("%d ns later than that: the probe's interval is taken: %v, want %v", late, got, adopted)
		}
	}
}

// Also where the interval can't grow, a throttle ends the generation: those under way do not count
// towards GiveUp once more.
func TestOneThrottleAGenerationAtTheSlowest(t *testing.T) {
	c := defaults
	c.Slowest, c.GiveUp = c.Fastest, 2
	l := newLine(t, c)
	marks := []uint64{l.grant(), l.grant(), l.grant()}
	for _, mark := range marks {
		l.s.Throttle(mark, 0)
	}
	if l.s.GaveUp() {
		t.Error("gave up after one generation")
	}
	if l.throttle(); !l.s.GaveUp() {
		t.Error("did not give up after two")
	}
}

// A probe whose entries failed for reasons of their own counts if half of them came back well, or
// one more where their number is odd.
func TestProbeNeedsHalfOfItsAnswers(t *testing.T) {
	odd := 0
	for _, factor := range []float64{0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5} {
		c := defaults
		c.Recover = factor
		l := newLine(t, c)
		l.throttle()
		l.throttle()
		l.success()
		l.throttle() // the limit is known
		l.success()
		known := l.s.Interval()
		for l.s.Interval() == known {
			l.success()
		}
		trial, length := l.s.Interval(), 0
		for try := *l; try.s.Interval() == trial; length++ {
			try.success()
		}
		odd += length % 2
		for answers := 1; answers < length; answers++ {
			try := *l
			var probe []uint64
			for range length {
				probe = append(probe, try.grant())
			}
			for _, mark := range probe[:answers] {
				try.s.Success(mark)
			}
			try.want(known, "all of the probe is granted")
			try.s.Success(try.grant())
			if got := try.s.Interval() < known; got != (2*answers >= length) {
				t.Errorf("%d of %d came back well: the probe's interval is taken: %v", answers, length, got)
			}
		}
	}
	if odd == 0 {
		t.Error("all probes are of an even length")
	}
}

// Where a refusal is dear, answers to entries from before it say nothing of how much the far side takes: they may come late.
func TestSharesOfThoseAfterTheRefusal(t *testing.T) {
	c := defaults
	c.Fastest, c.GiveUp = 10*ms, 0
	l := newLine(t, c)
	for range 20 {
		l.success()
	}
	var under []uint64
	for range 48 {
		under = append(under, l.grant())
	}
	l.s.Throttle(under[40], second)
	for _, mark := range under[:40] {
		l.s.Success(mark)
	}
	for _, mark := range under[41:] {
		l.s.Throttle(mark, second)
	}
	l.now += second
	l.success()
	l.want(17049180, "a second for 61, and 4 % more")
}

// After a dear probe that proved nothing there is a rest.
func TestIdleDearProbeRests(t *testing.T) {
	l, known := newDear(t)
	for l.s.Interval() == known {
		l.success()
	}
	for range 5 {
		l.now += second
		l.success()
	}
	for range 100 {
		l.success()
		l.want(known, "after a probe that was none")
	}
}
