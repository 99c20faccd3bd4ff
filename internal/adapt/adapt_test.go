package adapt_test

import (
	"math"
	"testing"

	"github.com/escapement-go/escapement/internal/adapt"
)

const (
	ms     = int64(1e6)
	second = 1000 * ms
)

// defaults is the Config that a gate at 2 a second passes on.
var defaults = adapt.Config{Fastest: 500 * ms, Slowest: 60 * second, Backoff: 2, Recover: 0.9, GiveUp: 3}

// line is a State whose calls go one at a time, each as soon as the interval allows, and take
// no time.
type line struct {
	t   *testing.T
	s   adapt.State
	now int64
}

func newLine(t *testing.T, c adapt.Config) *line { return &line{t: t, s: adapt.New(c)} }

func (l *line) grant() uint64 {
	l.now += l.s.Interval()
	return l.s.Grant(l.now)
}

func (l *line) success() {
	was := l.s.Interval()
	if changed := l.s.Success(l.grant()); changed != (l.s.Interval() != was) {
		l.t.Errorf("at %d: changed is %v, but %d became %d", l.now, changed, was, l.s.Interval())
	}
}

func (l *line) throttle() {
	was := l.s.Interval()
	if changed, _ := l.s.Throttle(l.grant(), 0); changed != (l.s.Interval() != was) {
		l.t.Errorf("at %d: changed is %v, but %d became %d", l.now, changed, was, l.s.Interval())
	}
}

func (l *line) want(interval int64, why string) {
	l.t.Helper()
	if got := l.s.Interval(); got != interval {
		l.t.Fatalf("%s: interval %d, want %d", why, got, interval)
	}
}

// descend expects the interval to shorten by 0.9 a success down to the fastest, and to stay
// there.
func (l *line) descend() {
	l.t.Helper()
	for x := l.s.Interval(); x > 500*ms; {
		x = max(int64(math.Round(float64(x)*0.9)), 500*ms)
		l.success()
		l.want(x, "success")
	}
	for range 10 {
		l.success()
		l.want(500*ms, "success at the fastest")
	}
}

// Founding problem 7: 2/s; throttled → 1 s → 2 s; success → ×0.9 down to 500 ms.
func TestFounding7_Sequence(t *testing.T) {
	for _, before := range []int{0, 1, 5, 50, 95, 96, 97, 1000} {
		l := newLine(t, defaults)
		for range before {
			l.success()
			l.want(500*ms, "before")
		}
		// Twice: what was learned the first time does not disturb the second.
		for range 2 {
			l.throttle()
			l.want(second, "throttled")
			l.throttle()
			l.want(2*second, "throttled again")
			for _, x := range []int64{1800 * ms, 1620 * ms, 1458 * ms, 1312200 * 1e3, 1180980 * 1e3} {
				l.success()
				l.want(x, "success")
			}
			l.descend()
		}
	}
}

// One throttle after less than 96 successes, too, is undone by 0.9 a success.
func TestFounding7_Once(t *testing.T) {
	for _, before := range []int{0, 1, 20, 95} {
		l := newLine(t, defaults)
		for range before {
			l.success()
		}
		l.throttle()
		l.want(second, "throttled")
		l.descend()
	}
}

// Nine throttles out of one burst double the interval once, and the successes of that burst
// change nothing either.
func TestOneStepAGeneration(t *testing.T) {
	s := adapt.New(defaults)
	var marks []uint64
	for i := range int64(12) {
		marks = append(marks, s.Grant(i))
	}
	for i, mark := range marks[:9] {
		if changed, counts := s.Throttle(mark, 0); !counts || changed != (i == 0) || s.Interval() != second {
			t.Errorf("throttle %d of the burst: %v, interval %d", i+1, changed, s.Interval())
		}
	}
	for _, mark := range marks[9:] {
		if s.Success(mark) || s.Interval() != second {
			t.Errorf("a success of the burst before: interval %d", s.Interval())
		}
	}
	if s.GaveUp() {
		t.Error("gave up after one generation")
	}
}

// Of the entries that went at one interval, one shortens it: the others have not seen yet what
// that did. A throttle among them is of the generation all the same.
func TestOneRecoveryARoundTrip(t *testing.T) {
	s := adapt.New(defaults)
	s.Throttle(s.Grant(0), 0)
	a, b, c := s.Grant(2), s.Grant(3), s.Grant(4)
	if !s.Success(a) || s.Interval() != 900*ms {
		t.Errorf("first success: interval %d, want 900 ms", s.Interval())
	}
	if s.Success(b) || s.Interval() != 900*ms {
		t.Errorf("second success of that round trip: interval %d, want 900 ms", s.Interval())
	}
	if changed, counts := s.Throttle(c, 0); !changed || !counts || s.Interval() != 1800*ms {
		t.Errorf("throttle of the generation: interval %d, want 1.8 s", s.Interval())
	}
}

func TestBounds(t *testing.T) {
	c := defaults
	c.Slowest, c.GiveUp = 3*second, 0
	l := newLine(t, c)
	for _, x := range []int64{second, 2 * second, 3 * second, 3 * second, 3 * second} {
		l.throttle()
		l.want(x, "throttled")
	}
	if l.s.GaveUp() {
		t.Error("gave up with a GiveUp of 0")
	}

	// At the slowest interval a throttle starts a generation as anywhere else.
	mark := l.s.Grant(l.now)
	l.throttle()
	if l.s.Success(mark) {
		t.Error("a pass from before the throttle moved the interval")
	}

	for _, c := range []adapt.Config{
		{Backoff: 2, Recover: 0.9},
		{Fastest: -5, Slowest: -7, Backoff: 1e300, Recover: 1e-300},
		{Fastest: 3, Slowest: 2, Backoff: math.Inf(1), Recover: math.SmallestNonzeroFloat64},
		{Fastest: math.MaxInt64, Slowest: math.MaxInt64, Backoff: 2, Recover: 0.9},
		{Fastest: 1, Slowest: math.MaxInt64, Backoff: 1e18, Recover: 0.999999999},
	} {
		s := adapt.New(c)
		fastest := max(c.Fastest, 1)
		slowest := max(c.Slowest, fastest)
		for i := range int64(2000) {
			mark := s.Grant(i)
			if i%97 < 3 {
				s.Throttle(mark, 0)
			} else {
				s.Success(mark)
			}
			if x := s.Interval(); x < fastest || x > slowest {
				t.Fatalf("%+v: interval %d", c, x)
			}
		}
	}
}

func TestGiveUp(t *testing.T) {
	l := newLine(t, defaults)
	l.throttle()
	l.throttle()
	l.success() // starts over
	l.throttle()
	l.throttle()
	if l.s.GaveUp() {
		t.Fatal("gave up after two in a row")
	}
	old := l.s.Grant(l.now)
	l.throttle()
	if !l.s.GaveUp() {
		t.Fatal("did not give up after three in a row")
	}
	l.success()
	if !l.s.GaveUp() {
		t.Error("a success ended it; only Reset does")
	}
	l.s.Reset()
	if l.s.GaveUp() {
		t.Error("still after Reset")
	}
	l.want(500*ms, "after Reset")
	if changed, _ := l.s.Throttle(old, 0); changed || l.s.Interval() != 500*ms {
		t.Error("a pass from before Reset moved the interval")
	}
	l.throttle()
	l.throttle()
	l.want(2*second, "two throttles after Reset")
	if l.s.GaveUp() {
		t.Error("gave up after two in a row; those before Reset were counted")
	}
}

// found brings l to know that 1 s works, where 0.9 s failed.
func found(l *line) {
	l.throttle()
	l.throttle()
	for l.s.Interval() > 900*ms {
		l.success()
	}
	l.throttle()
}

// After a limit was met, one success brings back what worked.
func TestBackInOneStep(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	failed := int64(860934420)
	l.want(2*failed, "failed while it was approached")
	l.success()
	l.want(956593800, "first success")
	for range 10 {
		l.success()
		l.want(956593800, "at the known interval")
	}
}

// A probe is left before its answers are back. If they are bad, nobody has to slow down for
// that; if they are good, its interval is taken.
func TestProbe(t *testing.T) {
	for _, good := range []bool{true, false} {
		l := newLine(t, defaults)
		found(l)
		l.success()
		known := l.s.Interval()
		for n := 0; l.s.Interval() == known; n++ {
			if n > 24 {
				t.Fatal("no probe")
			}
			l.success()
		}
		trial := l.s.Interval()
		if trial >= known {
			t.Fatalf("a probe at %d, known is %d", trial, known)
		}
		before := l.s.Grant(l.now)
		var probe []uint64
		for range 200 {
			l.now += l.s.Interval()
			probe = append(probe, l.s.Grant(l.now))
		}
		// A pass of the generation has to come back to end the probe.
		l.s.Success(before)
		l.want(known, "all of the probe is granted")
		after := l.s.Grant(l.now)
		for i, mark := range probe {
			if good || i < 100 {
				l.s.Success(mark)
			} else if changed, _ := l.s.Throttle(mark, 0); changed {
				t.Error("a throttle of the probe moved the interval")
			}
			l.want(known, "the probe's answers come in")
		}
		l.s.Success(after)
		if good && l.s.Interval() >= known {
			t.Error("the probe went well, but the interval is as before")
		}
		if !good {
			l.want(known, "the probe failed")
		}
	}
}

// A throttle during the probe is one of the generation. The first success after it brings the
// known interval back.
func TestProbeThrottledAtOnce(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	known := l.s.Interval()
	for l.s.Interval() == known {
		l.success()
	}
	trial := l.s.Interval()
	l.throttle()
	l.want(2*trial, "throttled during the probe")
	l.success()
	l.want(known, "the first success after that")
}

// A probe of which nobody hears anything, because its calls failed for reasons of their own,
// proves nothing.
func TestUnansweredProbeProvesNothing(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	known := l.s.Interval()
	for l.s.Interval() == known {
		l.success()
	}
	before := l.s.Grant(l.now)
	for range 200 {
		l.grant()
	}
	l.s.Success(before)
	l.want(known, "all of the probe is granted")
	l.success()
	l.want(known, "an entry from after the probe is back, and none of it")
}

// However much a success is to shorten the interval, a probe does not go below half of it.
func TestProbeIsNoLeap(t *testing.T) {
	c := defaults
	c.Fastest, c.Recover, c.GiveUp = 1, 0.1, 0
	l := newLine(t, c)
	for range 30 {
		l.throttle()
	}
	for range 3 {
		l.success()
	}
	l.throttle()
	l.success()
	known := l.s.Interval()
	for range 1000 {
		l.success()
		if x := l.s.Interval(); x < known {
			if x < known/2 {
				t.Fatalf("a probe at %d, known is %d", x, known)
			}
			return
		}
	}
	t.Fatal("no probe")
}

// When the known interval itself fails, it becomes longer by a third of a Recover. A success has the way back
// in between. After a rest, that is so again.
func TestKnownFails(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	for range 2 {
		x := float64(l.s.Interval())
		for range 3 {
			for range 10 {
				l.success()
			}
			l.throttle()
			l.success()
			x = math.Round(x * math.Pow(0.9, -1.0/3))
			l.want(int64(x), "back after the known interval failed")
		}
		// A probe that fails changes nothing.
		known := l.s.Interval()
		for l.s.Interval() == known {
			l.success()
		}
		l.throttle()
		l.success()
		l.want(known, "after a probe that failed")
	}
}

// The interval asked for, too, becomes known when it has worked for long.
func TestFastestBecomesKnown(t *testing.T) {
	for _, n := range []int{95, 96} {
		l := newLine(t, defaults)
		for range n {
			l.success()
		}
		l.throttle()
		l.success()
		if n < 96 {
			l.want(900*ms, "success")
		} else {
			l.want(int64(math.Round(5e8*math.Pow(0.9, -1.0/3))), "success")
		}
	}
}

// When what a probe had found fails, what was known before is back, and the probes spend more
// and become rarer.
func TestProbeWasWrong(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	var waits []int
	var spent []float64 // tokens, by the probes
	known := l.s.Interval()
	for range 3 {
		n := 0
		for ; l.s.Interval() == known; n++ {
			l.success()
		}
		waits = append(waits, n)
		trial := l.s.Interval()
		n = 0
		for ; l.s.Interval() == trial; n++ {
			l.success()
		}
		spent = append(spent, float64(n)*(float64(known)/float64(trial)-1))
		// It went well, and the next one began. That one fails at once, which says nothing of
		// what the far side saves up: it has just spent it.
		l.throttle()
		l.success()
		l.want(trial, "the second probe failed")
		l.throttle()
		l.success()
		l.want(known, "what the first probe found failed")
	}
	if waits[0] != 24 || waits[1] != 48 || waits[2] != 96 {
		t.Errorf("successes between probes: %v", waits)
	}
	for i, want := range []float64{2, 4, 6} {
		if spent[i] < want || spent[i] > want+1 {
			t.Errorf("tokens spent by the probes: %.2f", spent)
		}
	}
}

// A program that calls less often than it may shows nothing by it: the known interval stays.
func TestIdleProbeProvesNothing(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	known := l.s.Interval()
	for range 1000 {
		l.now += 5 * second
		l.success()
		if l.s.Interval() == known {
			continue
		}
		for n := 0; l.s.Interval() < known; n++ {
			if n > 500 {
				t.Fatal("the probe does not end")
			}
			l.now += 5 * second
			l.success()
		}
		l.want(known, "after a probe that was none")
	}
}

// The wait between probes doubles while they fail, and nothing but the probes fails.
func TestProbesBecomeRare(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	known := l.s.Interval()
	var waits []int
	for range 6 {
		n := 0
		for ; l.s.Interval() == known; n++ {
			l.success()
		}
		waits = append(waits, n)
		l.throttle()
		l.success()
		l.want(known, "after a probe that failed")
	}
	for i, want := range []int{24, 48, 96, 96, 96, 96} {
		if waits[i] != want {
			t.Fatalf("successes between probes: %v", waits)
		}
	}
}

// A limit that rises is found: from one probe that goes well to the next there is no wait.
func TestFollowsARisingLimit(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	n := 0
	for ; l.s.Interval() > 500*ms; n++ {
		l.success()
	}
	if n > 100 {
		t.Errorf("%d successes to the fastest interval", n)
	}
}

// What is known is forgotten when the backed off interval fails, too.
func TestForgotten(t *testing.T) {
	l := newLine(t, defaults)
	found(l)
	l.success()
	known := l.s.Interval()
	l.throttle()
	l.throttle()
	l.want(4*known, "throttled twice")
	l.success()
	l.want(int64(math.Round(float64(4*known)*0.9)), "success")
	l.descend()
}

func TestNoAllocations(t *testing.T) {
	s := adapt.New(defaults)
	now := int64(0)
	if n := testing.AllocsPerRun(2000, func() {
		now += s.Interval()
		mark := s.Grant(now)
		if now%31 == 0 {
			s.Throttle(mark, 0)
		} else {
			s.Success(mark)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Marks and changes are compared on the circle: nothing happens when the counters overflow.
func TestCounterOverflow(t *testing.T) {
	l := newLine(t, defaults)
	for range 3 {
		l.s.SkipChanges(math.MaxUint32/2 - 5)
		l.s.Reset()
		for range 3 {
			l.throttle()
			l.throttle()
			l.descend()
		}
		found(l)
		l.success()
		known := l.s.Interval()
		for l.s.Interval() == known {
			l.success()
		}
	}
}

func BenchmarkStep(b *testing.B) {
	s := adapt.New(defaults)
	now := int64(0)
	for i := 0; b.Loop(); i++ {
		now += s.Interval()
		mark := s.Grant(now)
		if i%200 == 0 {
			s.Throttle(mark, 0)
		} else {
			s.Success(mark)
		}
	}
}

// A new State would be no slower: not while the fastest interval is only a probe, nor when it has
// failed so often in a row.
func TestFresh(t *testing.T) {
	l := newLine(t, defaults)
	want := func(fresh bool, why string) {
		t.Helper()
		if l.s.Fresh() != fresh {
			t.Errorf("%s: fresh is %v", why, !fresh)
		}
	}
	want(true, "new")
	l.throttle()
	want(false, "throttled")
	l.descend()
	want(true, "back")
	l.throttle()
	for range 3 {
		l.success()
	}
	l.throttle() // the limit is known
	for l.s.Interval() > 500*ms {
		l.success()
		if l.s.Interval() > 500*ms {
			want(false, "on the way back")
		}
	}
	want(false, "probing")
	for range adapt.Memory {
		l.success()
	}
	want(true, "after the probe, and many entries")
	c := defaults
	c.Slowest = c.Fastest
	l = newLine(t, c)
	l.throttle()
	want(false, "one of three throttles")
	l.success()
	want(true, "after a success")
}
