package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// The default's patience: the delays of 10 attempts add up to something between these.
const (
	leastPatience = 25550 * ms
	mostPatience  = 51100 * ms
)

// outages are for how long the far side is away.
var outages = []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 25 * time.Second}

// back returns by when each caller is back after such an outage. A delay that begins within the outage has
// at most the number n for which the shortest delays before it, 50 ms·(2^(n−1)−1) in all, are no longer.
func back(outage time.Duration) time.Duration {
	n := 1
	for 50*ms*(1<<n-1) < outage {
		n++
	}
	return outage + min(100*ms<<(n-1), 30*time.Second)
}

// A call with the default policy outlasts a restart of the far side, whatever the jitter: 50 calls that are cut at
// once all succeed after an outage of up to 25 s, in 10 attempts or fewer, and soon enough.
func TestDefaultOutlastsRestart(t *testing.T) {
	for _, p := range []*retry.Policy{nil, {}} {
		for _, outage := range outages {
			run := func(b *bubble.B) {
				const calls = 50
				policy := p
				if b.Clock() != nil {
					policy = &retry.Policy{Clock: b.Clock()}
				}
				done := make(chan error, calls)
				for range calls {
					go func() {
						attempts := 0
						_, err := retry.Do(background, policy, func(context.Context) (int, error) {
							if attempts++; b.Now() < outage {
								return 0, errA
							}
							return 1, nil
						})
						if attempts > 10 || b.Now() > back(outage) {
							err = errors.Join(err, fmt.Errorf("back at %v, after %d attempts", b.Now(), attempts))
						}
						done <- err
					}()
				}
				b.Advance(time.Minute)
				for range calls {
					if err := <-done; err != nil {
						b.Errorf("an outage of %v: %v", outage, err)
					}
				}
			}
			if p == nil {
				bubble.Real(t, run)
			} else {
				bubble.Both(t, run)
			}
		}
	}
}

// If the far side stays away, the call ends: in no less than 25 s, and in no more than 51.1 s.
func TestDefaultGivesUp(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for range 100 {
			r := play(b, background, retry.Policy{}, fails(slices.Repeat([]error{errA}, 11)...)...)
			if len(r.starts) != 10 || r.end < leastPatience || r.end > mostPatience || !errors.Is(r.err, retry.ErrAttempts) || !errors.Is(r.err, errA) {
				b.Fatalf("%d attempts, ended at %v: %v", len(r.starts), r.end, r.err)
			}
			if n, _ := slices.BinarySearch(r.starts, 10*time.Second); n > 8 {
				b.Errorf("%d attempts within 10 s, want at most 8", n)
			}
		}
	})
}

// A call that is throttled for ever, without a hint, ends as the doc of Policy.Throttles says.
func TestDefaultThrottledForEver(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for range 100 {
			r := play(b, background, retry.Policy{}, fails(slices.Repeat([]error{retry.Throttled(0, errA)}, 21)...)...)
			if len(r.starts) != 20 || r.end < 175550*ms || r.end > 351100*ms || !errors.Is(r.err, retry.ErrThrottles) {
				b.Fatalf("%d attempts, ended at %v: %v", len(r.starts), r.end, r.err)
			}
		}
		// A hint is a lower bound of each delay.
		r := play(b, background, retry.Policy{}, fails(slices.Repeat([]error{retry.Throttled(time.Minute, errA)}, 21)...)...)
		if len(r.starts) != 20 || r.end != 19*time.Minute || !errors.Is(r.err, retry.ErrThrottles) {
			b.Errorf("%d attempts, ended at %v: %v", len(r.starts), r.end, r.err)
		}
	})
}

// With AttemptTimeout and Elapsed a call returns within their sum, whatever happens. Here each attempt hangs. The last
// one begins at the last instant at which it may, or would begin later because OnRetry took longer than the delay.
func TestCannotHang(t *testing.T) {
	for _, c := range []struct {
		delay, onRetry time.Duration
		attempts       int
		end            time.Duration
	}{
		{40 * time.Second, 0, 2, 60 * time.Second},
		{50 * time.Second, 0, 2, 70 * time.Second},
		{50*time.Second + 1, 0, 1, 10 * time.Second},
		{0, 49 * time.Second, 2, 69 * time.Second},
		{0, 50 * time.Second, 2, 70 * time.Second},
		{0, 50*time.Second + 1, 1, 60*time.Second + 1},
		{50 * time.Second, 50 * time.Second, 2, 70 * time.Second},
	} {
		for _, g := range []gate.Gate{nil, gate.NewConcurrency(1)} {
			bubble.Both(t, func(b *bubble.B) {
				p := retry.Policy{Attempts: -1, Elapsed: time.Minute, AttemptTimeout: 10 * time.Second, Backoff: retry.Constant(c.delay), Gate: g}
				p.OnRetry = func(retry.Event) { b.Sleep(c.onRetry) }
				attempts := 0
				end, err := call(b, background, p, func(ctx context.Context) error {
					attempts++
					<-ctx.Done()
					return context.Cause(ctx)
				})
				if attempts != c.attempts || end != c.end || !errors.Is(err, retry.ErrElapsed) {
					b.Errorf("%+v: %d attempts, ended after %v: %v", c, attempts, end, err)
				}
			})
		}
	}
}

// among is what becomes of 100 items, by the instants at which their calls return.
type among struct {
	at       [100]time.Duration
	errs     [100]error
	attempts int // at the first item
}

// callItems makes a call for each item, every so often. If refused is not nil, each attempt at the first item ends with
// it. All others succeed. An attempt takes 50 ms.
func callItems(b *bubble.B, g gate.Gate, every time.Duration, refused error) (r among) {
	begin := b.Now()
	p := &retry.Policy{Gate: g, Clock: b.Clock()}
	done := make(chan struct{})
	for i := range r.at {
		go func() {
			if every > 0 && i > 0 {
				b.Sleep(time.Duration(i) * every)
			}
			r.errs[i] = retry.Run(background, p, func(context.Context) error {
				b.Sleep(50 * ms)
				if i > 0 {
					return nil
				}
				r.attempts++
				return refused
			})
			r.at[i] = b.Now() - begin
			done <- struct{}{}
		}()
		b.Settle() // in this order
	}
	b.Advance(time.Hour)
	for range r.at {
		<-done
	}
	return r
}

// An item that is throttled for ever is not everybody's affair. Behind a gate that knows the limit, its call ends with
// ErrThrottles within a bound. All others succeed, and are late by no more than the tokens, or the times in the slot, of
// its first attempts: by three at most, because its delays soon last for longer than the gate needs to catch up.
func TestOneItemIsThrottled(t *testing.T) {
	for _, every := range []time.Duration{0, 125 * ms} { // all at once, and at four fifths of the rate
		for _, c := range []struct{ hint, least, most time.Duration }{
			{0, 175 * time.Second, 362 * time.Second},
			{time.Second, 175 * time.Second, 365 * time.Second},
			{time.Minute, 19 * time.Minute, 20 * time.Minute},
		} {
			for _, kind := range []string{"Rate", "Window", "Concurrency"} {
				bubble.Both(t, func(b *bubble.B) {
					g, late := func() gate.Gate { return gate.NewConcurrency(1) }, 3*50*ms
					switch kind {
					case "Rate":
						g, late = func() gate.Gate { return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}) }, 3*100*ms
					case "Window":
						g, late = func() gate.Gate {
							return gate.NewWindow(10, time.Second, &gate.WindowOptions{Clock: b.Clock()})
						}, 3*100*ms
					}
					got, want := callItems(b, g(), every, retry.Throttled(c.hint, errA)), callItems(b, g(), every, nil)
					worst := time.Duration(0)
					for i := range got.at[1:] {
						worst = max(worst, got.at[i+1]-want.at[i+1])
						if got.errs[i+1] != nil {
							b.Errorf("item %d: %v", i+1, got.errs[i+1])
						}
					}
					b.Logf("%s, hint %v, every %v: it ends after %v, the others are late by %v at most", kind, c.hint, every, got.at[0], worst)
					if err := got.errs[0]; !errors.Is(err, retry.ErrThrottles) || !errors.Is(err, errA) || got.attempts != 20 || got.at[0] < c.least || got.at[0] > c.most {
						b.Errorf("it ends after %v and %d attempts: %v", got.at[0], got.attempts, err)
					}
					if worst > late {
						b.Errorf("the others are late by %v, want at most %v", worst, late)
					}
				})
			}
		}
	}
}

// trial is what 1,000 callers do that fail together, 20 times over.
type trial struct {
	survived []float64 // percent that outlast the outage of that place
	lost     int       // calls of the 20,000 that don't outlast 10 s
	ends     []time.Duration
	within   float64 // retries of a caller within 10 s
	peaks    []int   // most calls in any second: the first, then those of 1 to 5 s, 5 to 10 s, 10 to 20 s
}

// try draws the delays of n attempts.
func try(b retry.Backoff, n int) (r trial) {
	const callers, times = 1000, 20
	r.survived = make([]float64, len(trialOutages))
	r.peaks = make([]int, 4)
	for range times {
		tenths := make([]int, 10_000)
		for range callers {
			var at, delay time.Duration
			for k := 1; k < n; k++ {
				delay = b(k, delay)
				at += delay
				tenths[at/(100*ms)]++
				if at < 10*time.Second {
					r.within += 1. / (callers * times)
				}
			}
			r.ends = append(r.ends, at)
			for i, d := range trialOutages {
				if at >= d {
					r.survived[i] += 100. / (callers * times)
				}
			}
			if at < 10*time.Second {
				r.lost++
			}
		}
		for i, edges := range [][2]int{{0, 10}, {10, 50}, {50, 100}, {100, 200}} {
			for k := edges[0]; k < edges[1]; k++ {
				r.peaks[i] = max(r.peaks[i], 10*tenths[k])
			}
		}
	}
	slices.Sort(r.ends)
	return r
}

var trialOutages = []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 60 * time.Second}

// The candidates for the default, side by side. Run it with -v to see the table. The peaks are the most calls in 100 ms
// that 1,000 callers make which failed together, times 10.
func TestPatience(t *testing.T) {
	o := &retry.JitterOptions{Rand: rand.New(rand.NewPCG(1, 2)).Int64N}
	full, equal := retry.FullJitter(100*ms, 30*time.Second, o), retry.EqualJitter(100*ms, 30*time.Second, o)
	var table strings.Builder
	fmt.Fprintln(&table, "\n| delays | attempts | outlasts 1 s | 5 s | 10 s | 20 s | 60 s | gives up after | retries in 10 s | peak/s in 0-1 s | 1-5 s | 5-10 s | 10-20 s |")
	results := map[string]trial{}
	for _, c := range []struct {
		name string
		b    retry.Backoff
		n    int
	}{
		{"full jitter from 100 ms", full, 4},
		{"full jitter from 100 ms", full, 10},
		{"full jitter from 100 ms", full, 11},
		{"full jitter from 100 ms", full, 12},
		{"equal jitter from 100 ms", equal, 9},
		{"equal jitter from 100 ms", equal, 10},
		{"equal jitter from 100 ms", equal, 11},
		{"equal jitter from 1 s", retry.EqualJitter(time.Second, 30*time.Second, o), 6},
		{"decorrelated from 100 ms", retry.DecorrelatedJitter(100*ms, 30*time.Second, o), 10},
		{"doubling from 1 s", retry.Exponential(time.Second, 30*time.Second), 5},
	} {
		r := try(c.b, c.n)
		results[fmt.Sprint(c.name, c.n)] = r
		fmt.Fprintf(&table, "| %s | %d |", c.name, c.n)
		for _, p := range r.survived {
			fmt.Fprintf(&table, " %.4g %% |", p)
		}
		fmt.Fprintf(&table, " %.0f to %.0f s | %.1f | %d | %d | %d | %d |\n", r.ends[0].Seconds(), r.ends[len(r.ends)-1].Seconds(),
			r.within, r.peaks[0], r.peaks[1], r.peaks[2], r.peaks[3])
	}
	t.Log(table.String())

	r := results["equal jitter from 100 ms10"]
	for i, d := range trialOutages {
		if (r.survived[i] > 99.999) != (d <= leastPatience) {
			t.Errorf("%v %% outlast %v", r.survived[i], d)
		}
	}
	if first, last := r.ends[0], r.ends[len(r.ends)-1]; first < leastPatience || last > mostPatience {
		t.Errorf("it gives up after %v to %v", first, last)
	}
	// The callers spread: a crowd that failed within one instant is soon no crowd any more.
	for i, most := range []int{11_000, 3_000, 850, 550} {
		if r.peaks[i] > most {
			t.Errorf("peaks of %v calls a second, want at most %d in span %d", r.peaks, most, i)
		}
	}
	// The figure in the doc of FullJitter.
	if n := results["full jitter from 100 ms10"].lost / 20; n < 20 || n > 40 {
		t.Errorf("with full jitter %d of 1,000 calls give up within 10 s, want some 30", n)
	}
}
