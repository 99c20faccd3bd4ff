package adapt_test

import (
	"math"
	"testing"

	"github.com/escapement-go/escapement/internal/adapt"
)

// rested returns how many successes it takes until the interval is no longer x.
func (l *line) rested(x int64) (n int) {
	for ; l.s.Interval() == x; n++ {
		if n > 1e6 {
			l.t.Fatal("it stays")
		}
		l.success()
	}
	return n
}

// moved returns a line that has gone at 10 ms for long, until the limit halved, and its interval now.
func moved(t *testing.T) (l *line, known int64) {
	c := defaults
	c.Fastest, c.GiveUp = 10*ms, 0
	l = newLine(t, c)
	for range 600 {
		l.success()
	}
	for range 2 { // the second one comes so soon that the limit is far away
		l.s.Throttle(l.grant(), second)
		l.now += second
		l.success()
	}
	if known = l.s.Interval(); known < 15*ms {
		t.Fatalf("an interval of %d", known)
	}
	return l, known
}

// search plays the search for a shorter interval, which fails each time, until a probe is at half of the known
// one: that is near to 10 ms. It returns the
// successes since the last refusal.
func (l *line) search(known int64) (n int) {
	for range 20 {
		if n = l.rested(known); 2*l.s.Interval() < known+10 {
			return n
		}
		l.s.Throttle(l.grant(), second)
		l.now += second
		l.success()
		l.want(known, "after a probe that failed")
	}
	l.t.Fatal("no return")
	return 0
}

// A probe returns to the interval from before the limit moved, at once, and it becomes the known one.
func TestReturns(t *testing.T) {
	l, known := moved(t)
	n := l.search(known)
	if want := int(math.Ceil(7 * 1e9 / float64(known))); n < want-1 || n > want+1 {
		t.Errorf("the return began after %d successes, want two spans for the proof and five more: %d", n, want)
	}
	if n := l.rested(l.s.Interval()); n > 200 {
		t.Errorf("the return took %d successes, want those of two spans", n)
	}
	for range 500 {
		l.want(10*ms, "the limit has moved back")
		l.success()
	}
	l.s.Throttle(l.grant(), second) // it moves again: there is no search this time
	l.now += second
	l.success()
	if x := l.s.Interval(); x < known*8/10 || x > known*12/10 {
		t.Errorf("an interval of %d, and %d before", x, known)
	}
}

// A return that fails leaves the known interval alone, and the next rest is longer by a quarter.
func TestReturnFails(t *testing.T) {
	l, known := moved(t)
	n := l.search(known)
	for range 3 {
		l.s.Throttle(l.grant(), second)
		l.now += second
		l.success()
		l.want(known, "the return failed")
		again := l.search(known)
		proof := 2e9 / float64(known)
		if want := proof + (float64(n)-proof)*1.25; math.Abs(float64(again)-want) > 2 {
			t.Errorf("a rest of %d successes, and then one of %d, want %.0f", n, again, want)
		}
		n = again
	}
}

// The more calls a hold costs, the fewer successes of slow calls it takes to learn that there is noise.
func TestHoldsThatCostLittleAreKept(t *testing.T) {
	for _, tt := range []struct {
		hold int64 // for so many intervals
		well int   // slow calls that come back well
	}{{10, 44}, {100, 8}, {400, 5}} {
		for _, missing := range []int{0, 1} {
			c := defaults
			c.Fastest, c.GiveUp = 10*ms, 0
			s := adapt.New(c)
			now := int64(0)
			first := s.Grant(now)
			s.Throttle(first, tt.hold*c.Fastest)
			var slow []uint64
			for range tt.well - missing + 1 {
				now += s.Interval()
				slow = append(slow, s.Grant(now))
			}
			for _, mark := range slow[1:] {
				s.Success(mark)
			}
			if _, counts := s.Throttle(slow[0], 0); counts != (missing > 0) {
				t.Errorf("a hold of %d intervals, %d slow calls came back well: the next refusal counts: %v", tt.hold, len(slow)-1, counts)
			}
		}
	}
}

// After a costly refusal, six more calls stay slow if the few calls under way came back well.
func TestWatched(t *testing.T) {
	for _, well := range []int{1, 2, 6, 7} {
		c := defaults
		c.Fastest, c.GiveUp = 10*ms, 0
		l := newLine(t, c)
		for range 600 {
			l.success()
		}
		var under []uint64
		for range 1 + well {
			under = append(under, l.grant())
		}
		l.s.Throttle(under[0], second)
		for _, mark := range under[1:] {
			l.s.Success(mark)
		}
		l.now += second
		want := 1
		if well >= 2 && well < 7 { // from 8 answers on, their share tells enough
			want = 7
		}
		if n := l.rested(20 * ms); n != want {
			t.Errorf("%d came back well: %d successes at the longer interval, want %d", well, n, want)
		}
	}
}
