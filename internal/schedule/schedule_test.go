package schedule_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/schedule"
)

const (
	ms   = int64(time.Millisecond)
	sec  = int64(time.Second)
	day  = 24 * 60 * 60 * sec
	year = 365 * day
	base = int64(1) << 61 // where the timeline of the gates begins
)

// fineRates are rates whose interval is no whole number of nanoseconds, or hardly one.
var fineRates = []struct {
	name    string
	n, span int64
	burst   int
}{
	{"7/s", 7, sec, 1},
	{"7/s burst 7", 7, sec, 7},
	{"1/s", 1, sec, 1},
	{"3e8/s", 3e8, sec, 1},
	{"999999937/s", 999_999_937, sec, 1},
	{"999999937/s burst 1000", 999_999_937, sec, 1000},
	{"1/d", 1, day, 1},
	{"1234567/d", 1_234_567, day, 1_234_567},
	{"3/2ns", 3, 2, 4},
	{"1/100y", 1, 100 * year, 1},
	{"largest n", math.MaxInt64, sec, 1},
}

func TestInstants(t *testing.T) {
	type step struct {
		at    int64 // when the entry comes, after base
		cost  int
		due   int64 // when it may go, after base
		grant int64 // when it goes; 0: when it is due
	}
	for _, c := range []struct {
		name    string
		n, span int64
		burst   int
		slack   int64
		steps   []step
	}{
		{"strict spacing", 2, sec, 1, -1, []step{
			{0, 1, 0, 0}, {0, 1, 500 * ms, 0}, {0, 1, 1000 * ms, 0}, {3000 * ms, 1, 3000 * ms, 0}, {3000 * ms, 1, 3500 * ms, 0}}},
		{"leaky bucket", 5, 10 * sec, 5, -1, []step{
			{0, 1, 0, 0}, {10 * ms, 1, 10 * ms, 0}, {20 * ms, 1, 20 * ms, 0}, {30 * ms, 1, 30 * ms, 0}, {40 * ms, 1, 40 * ms, 0},
			{50 * ms, 1, 2000 * ms, 0}, {60 * ms, 1, 4000 * ms, 0}, {70 * ms, 1, 6000 * ms, 0}}},
		{"idle time saves up the burst and no more", 1, sec, 3, -1, []step{
			{0, 3, 0, 0}, {0, 1, 1000 * ms, 0}, {100_000 * ms, 1, 100_000 * ms, 0}, {100_000 * ms, 2, 100_000 * ms, 0}, {100_000 * ms, 1, 101_000 * ms, 0}}},
		{"intervals round up and do not add up", 3, 10, 1, -1, []step{
			{0, 1, 0, 0}, {0, 1, 4, 0}, {0, 1, 7, 0}, {0, 1, 10, 0}, {0, 1, 14, 0}}},
		{"lateness is made up", 1000, sec, 1, 10 * ms, []step{
			{0, 1, 0, 0}, {0, 1, 1 * ms, 3 * ms}, {3 * ms, 1, 3 * ms, 0}, {3 * ms, 1, 3 * ms, 0}, {3 * ms, 1, 4 * ms, 0}}},
		{"lateness beyond the slack is lost", 1000, sec, 1, 2 * ms, []step{
			{0, 1, 0, 0}, {0, 1, 1 * ms, 11 * ms}, {11 * ms, 1, 11 * ms, 0}, {11 * ms, 1, 11 * ms, 0}, {11 * ms, 1, 12 * ms, 0}}},
		{"no lateness is made up without slack", 1000, sec, 1, -1, []step{
			{0, 1, 0, 0}, {0, 1, 1 * ms, 3 * ms}, {3 * ms, 1, 4 * ms, 0}, {3 * ms, 1, 5 * ms, 0}}},
		{"a caller who stays away gets nothing", 1000, sec, 1, 10 * ms, []step{
			{0, 1, 0, 0}, {5 * ms, 1, 5 * ms, 0}, {5 * ms, 1, 6 * ms, 0}}},
		{"lateness is forgotten when idle", 1000, sec, 1, 10 * ms, []step{
			{0, 1, 0, 0}, {0, 1, 1 * ms, 3 * ms}, {20 * ms, 1, 20 * ms, 0}, {20 * ms, 1, 21 * ms, 0}}},
	} {
		s := schedule.New(c.n, c.span, c.burst, c.slack)
		ref := newBucket(c.n, c.span, c.burst, c.slack)
		for i, step := range c.steps {
			now := base + step.at
			since := s.Arrive(now)
			ref.arrive(now)
			want := base + step.due
			// An entry that counts from before it came is due before it came.
			if got := max(now, s.Due(since, 0, step.cost)); got != want {
				t.Fatalf("%s: entry %d is due at %d, want %d", c.name, i, got-base, step.due)
			}
			if step.grant != 0 {
				want = base + step.grant
			}
			s.Take(want, since, step.cost)
			ref.take(want, since, step.cost)
		}
	}
}

// The k-th token of a schedule is due at exactly ⌈k·span/n⌉, however large k is.
func TestDueIsExactForHugeNumbers(t *testing.T) {
	for _, r := range fineRates {
		s := schedule.New(r.n, r.span, r.burst, -1)
		s.Take(base, base, r.burst) // empty
		for _, k := range []uint64{1, 2, 7, 1000, 1e6 + 1, 1e9 + 7, 220_752_000, 1e15 + 3, 1 << 62, math.MaxUint64 - 1} {
			want := new(big.Int).Mul(new(big.Int).SetUint64(k), big.NewInt(r.span))
			want.Add(want, big.NewInt(r.n-1)).Div(want, big.NewInt(r.n)).Add(want, big.NewInt(base))
			if !want.IsInt64() {
				want.SetInt64(math.MaxInt64)
			}
			if got := s.Due(base, k-1, 1); got != want.Int64() {
				t.Errorf("%s: token %d is due at %d, want %d", r.name, k, got, want)
			}
		}
	}
}

// Taken one after the other, each when it is due, the tokens of a long time are right to
// the last one: nothing is lost by the taking itself.
func TestNoDrift(t *testing.T) {
	for _, r := range fineRates {
		s := schedule.New(r.n, r.span, r.burst, -1)
		s.Take(base, base, r.burst)
		now, taken := base, int64(0)
		for i := 0; i < 2000; i++ {
			cost := 1 + i%r.burst
			if now = s.Due(now, 0, cost); now == math.MaxInt64 {
				break
			}
			s.Take(now, now, cost)
			taken += int64(cost)
			want := new(big.Int).Mul(big.NewInt(taken), big.NewInt(r.span))
			want.Add(want, big.NewInt(r.n-1)).Div(want, big.NewInt(r.n)).Add(want, big.NewInt(base))
			if now != want.Int64() {
				t.Fatalf("%s: %d tokens at %d, want %d", r.name, taken, now-base, want.Int64()-base)
			}
		}
	}
}

// A year at 7 a second ends with the very token that it must end with. It is taken in
// leaps, as costs of a large burst, which leaves the schedule as single tokens would.
func TestYearOfSevens(t *testing.T) {
	const leap = 7 * 86400
	s := schedule.New(7, sec, leap, -1)
	s.Take(base, base, leap)
	now := base
	for range 365 {
		now = s.Due(now, 0, leap)
		s.Take(now, now, leap)
	}
	if now != base+year {
		t.Errorf("a year's tokens took %d ns too long", now-base-year)
	}
	if got, want := s.Due(now, 0, 1), base+year+142_857_143; got != want {
		t.Errorf("the token after a year is due at %d, want %d", got, want)
	}
	if got := s.Due(now, 6, 1); got != base+year+sec {
		t.Errorf("the seventh token after a year is due at %d, want %d", got, base+year+sec)
	}
}

// A hundred years after the start of the timeline everything is as on the first day.
func TestHundredYears(t *testing.T) {
	for _, r := range fineRates {
		s := schedule.New(r.n, r.span, r.burst, -1)
		old := base + 100*year
		if got := s.Due(old, 0, r.burst); got != old {
			t.Errorf("%s: a full bucket is due %d ns late", r.name, got-old)
		}
		s.Take(old, old, r.burst)
		ref := newBucket(r.n, r.span, r.burst, -1)
		ref.take(old, old, r.burst)
		for k := range uint64(5) {
			if got, want := s.Due(old, k, 1), ref.due(old, k, 1); got != want {
				t.Errorf("%s: token %d is due at %d, want %d", r.name, k+1, got, want)
			}
		}
		if s.Full(old) {
			t.Errorf("%s: full after all has been taken", r.name)
		}
	}
}

// What is too far off to be counted never comes, rather than coming at once.
func TestNeverDoesNotWrapAround(t *testing.T) {
	s := schedule.New(1, math.MaxInt64, math.MaxInt, -1)
	s.Take(base, base, math.MaxInt)
	s.Take(base, base, math.MaxInt)
	s.Settle(base, 0, 0, math.MaxInt)
	s.SetRate(base, 1, sec)
	s.SetRate(base, 1, math.MaxInt64)
	if got := s.Due(base, math.MaxUint64, math.MaxInt); got != math.MaxInt64 {
		t.Errorf("due at %d, want never", got)
	}
	s.Hold(base, math.MaxInt64)
	if got := s.Due(base, 0, 1); got != math.MaxInt64 {
		t.Errorf("due at %d in an endless hold, want never", got)
	}
}

func TestHoldLeavesOneToken(t *testing.T) {
	for _, burst := range []int{1, 2, 10} {
		s := schedule.New(2, sec, burst, 0)
		s.Hold(base, base+10*sec)
		s.Hold(base, base+3*sec) // a shorter one does nothing
		if s.Held() != base+10*sec || s.Full(base+9*sec) {
			t.Fatalf("burst %d: held until %d", burst, s.Held()-base)
		}
		for i := range int64(5) {
			if got, want := s.Due(base, uint64(i), 1), base+10*sec+i*sec/2; got != want {
				t.Errorf("burst %d: entry %d after a hold is due at %d, want %d", burst, i, got-base, want-base)
			}
		}
	}
}

// The tokens in the bucket and the part of the next one are the same after a change of
// rate or burst; a debt stays the same number of tokens.
func TestChangeOfPlanKeepsTokens(t *testing.T) {
	s := schedule.New(1, sec, 4, -1)
	s.Take(base, base, 4)
	now := base + 2500*ms // 2.5 tokens
	s.SetRate(now, 10, sec)
	for i, want := range []int64{0, 0, 50 * ms, 150 * ms} {
		if got := s.Due(now, uint64(i), 1) - now; got != want {
			t.Errorf("faster: token %d in %d, want %d", i, got, want)
		}
	}
	s.SetBurst(now, 2) // holds 2 of 2.5
	for i, want := range []int64{0, 0, 100 * ms} {
		if got := s.Due(now, uint64(i), 1) - now; got != want {
			t.Errorf("smaller: token %d in %d, want %d", i, got, want)
		}
	}
	s.SetBurst(now, 5)
	for i, want := range []int64{0, 0, 100 * ms} {
		if got := s.Due(now, uint64(i), 1) - now; got != want {
			t.Errorf("larger: token %d in %d, want %d", i, got, want)
		}
	}
	s.Settle(now, 0, 1, 5) // owes 2
	s.SetRate(now, 1, sec)
	if got := s.Due(now, 0, 1) - now; got != 3*sec {
		t.Errorf("a debt of 2: first token in %d, want 3 s", got)
	}
}

func TestUnlimited(t *testing.T) {
	s := schedule.New(0, 0, 1, 0)
	for range 3 {
		if got := s.Due(base, 1e6, 1); got != base {
			t.Errorf("due at %d, want at once", got-base)
		}
		s.Take(base, base, 1)
	}
	s.Hold(base, base+sec)
	if got := s.Due(base, 1e6, 1); got != base+sec {
		t.Errorf("due at %d, want at the end of the hold", got-base)
	}
	s.SetRate(base, 1, sec) // one token is there after the hold
	if got := s.Due(base, 1, 1); got != base+2*sec {
		t.Errorf("due at %d, want 1 s after the end of the hold", got-base)
	}
	s.SetRate(base+5*sec, 0, 0)
	if got := s.Due(base+5*sec, 5, 1); got != base+5*sec {
		t.Errorf("due at %d, want at once", got-base)
	}
}

// That the last entry was late to run is made up like its being granted late, once, up to the
// slack, and not if somebody else has been let go since or the plan was changed.
func TestRan(t *testing.T) {
	granted := base + 100*ms
	for _, c := range []struct {
		name    string
		between func(s *schedule.Schedule)
		late    int64
	}{
		{"nothing", func(s *schedule.Schedule) { s.Ran(granted+4*ms, granted) }, 4 * ms},
		{"beyond the slack", func(s *schedule.Schedule) { s.Ran(granted+50*ms, granted) }, 10 * ms},
		{"twice", func(s *schedule.Schedule) { s.Ran(granted+4*ms, granted); s.Ran(granted+5*ms, granted) }, 4 * ms},
		{"another's", func(s *schedule.Schedule) { s.Ran(granted+4*ms, granted-1) }, 0},
		{"somebody after it", func(s *schedule.Schedule) {
			s.Take(granted+sec, granted+sec, 1)
			s.Ran(granted+sec+4*ms, granted)
		}, 0},
		{"somebody by the word", func(s *schedule.Schedule) {
			cell := s.Open(granted, schedule.Shut())
			if v := cell.Take(cell.Load(), granted+sec, 1); v != schedule.Taken {
				t.Fatal("the word was of no use")
			}
			cell.Close(s)
			s.Ran(granted+sec+4*ms, granted)
		}, 0},
		{"a new rate", func(s *schedule.Schedule) { s.SetRate(granted+ms, 7, sec); s.Ran(granted+4*ms, granted) }, 0},
		{"a settlement", func(s *schedule.Schedule) { s.Settle(granted+ms, 0, 1, 2); s.Ran(granted+4*ms, granted) }, 0},
	} {
		s := schedule.New(100, sec, 1, 10*ms)
		s.Take(granted, granted, 1)
		c.between(&s)
		now := granted + sec + 5*ms
		if c.late > 0 {
			now = granted + 6*ms
		}
		if got := now - s.Arrive(now); got != c.late {
			t.Errorf("%s: made up %d ns, want %d", c.name, got, c.late)
		}
	}
}

// An entry that did not take place gives back what settling it to nothing would, and no more is
// remembered for it.
func TestUndo(t *testing.T) {
	const interval = 10 * ms
	for _, tracked := range []bool{false, true} {
		s := schedule.New(1, interval, 3, 0)
		if tracked {
			s.Track()
		}
		s.Take(base, base, 1)
		before := s.Due(base+ms, 0, 3)
		mark := s.Take(base+ms, base+ms, 2)
		s.Undo(base+ms, mark, 2)
		if got := s.Due(base+ms, 0, 3); got != before {
			t.Errorf("tracked %v: the full bucket is due at %d, want %d", tracked, got-base, before-base)
		}
		if open := s.Open(base+ms, schedule.Shut()).Load() != schedule.Shut().Load(); open == tracked {
			t.Errorf("tracked %v: can be opened %v", tracked, open)
		}
	}
}

// What lateness beyond the slack costs is counted in tokens: whether the alarm was late, or the caller.
func TestForfeited(t *testing.T) {
	for _, c := range []struct {
		name          string
		alarm, caller int64 // lateness
		slack         int64
		n             int64 // rate per second
		want          uint64
	}{
		{"in time", 0, 0, 10 * ms, 1000, 0},
		{"within the slack", 6 * ms, 4 * ms, 10 * ms, 1000, 0},
		{"the alarm", 17 * ms, 0, 10 * ms, 1000, 7},
		{"the caller", 0, 17*ms + 1, 10 * ms, 1000, 6},
		{"both", 7 * ms, 7 * ms, 10 * ms, 1000, 3},
		{"without slack", 3 * ms, 0, -1, 1000, 3},
		{"part of a token", 3 * ms, 0, -1, 300, 0},
		{"no limit", sec, sec, 10 * ms, 0, 0},
	} {
		s := schedule.New(c.n, sec, 1, c.slack)
		s.Take(base, base, 1)
		due := s.Due(base, 0, 1)
		s.Take(due+c.alarm, base, 1)
		s.Ran(due+c.alarm+c.caller, due+c.alarm)
		if got := s.Forfeited(); got != c.want {
			t.Errorf("%s: %d tokens forfeited, want %d", c.name, got, c.want)
		}
	}
	// Parts add up.
	s := schedule.New(300, sec, 1, -1)
	for range 3 {
		due := s.Due(0, 0, 1)
		s.Take(due+2*ms, 0, 1)
	}
	if got := s.Forfeited(); got != 1 {
		t.Errorf("%d tokens forfeited in parts, want 1", got)
	}
}
