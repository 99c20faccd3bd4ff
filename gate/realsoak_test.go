//go:build unix

package gate_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// soakFor returns for how long the tests on the real clock are to run. They take as long as
// one likes and every processor there is, and what they see depends on what else the machine
// does: so they are run by hand.
func soakFor(t *testing.T) time.Duration {
	d, err := time.ParseDuration(os.Getenv("ESCAPEMENT_SOAK"))
	if err != nil {
		t.Skip("takes minutes of real time and all processors: run with ESCAPEMENT_SOAK=10m -timeout 1h, and -cpu 1,2")
	}
	return d
}

// bounded checks, while one caller in a loop enters, that no window holds more tokens than
// burst + rate·(w + slack). Each grant lies between the caller's readings of the clock before
// and after it, so what it counts in between has really gone there.
type bounded struct {
	perSecond, burst float64
	slack            time.Duration
	low, worst       float64
	n                float64
}

// saw notes a token that was granted between two readings, and returns how many tokens too
// many that makes.
func (b *bounded) saw(before, after time.Duration) {
	if b.n == 0 {
		b.low, b.worst = -b.perSecond*before.Seconds(), -1e9
	}
	b.low = min(b.low, b.n-b.perSecond*before.Seconds())
	b.n++
	b.worst = max(b.worst, b.n-b.perSecond*after.Seconds()-b.low-b.burst-b.perSecond*b.slack.Seconds())
}

// TestSoakBusy holds rates while all processors are busy with other work: within half a
// percent, if the slack makes up for how long the processors may be taken away, and never
// more than the bound. In less than a minute the rates are printed only.
func TestSoakBusy(t *testing.T) {
	d := soakFor(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			block := make([]byte, 64<<10)
			for ctx.Err() == nil {
				sum := sha256.Sum256(block)
				copy(block, sum[:])
			}
		})
	}
	type run struct {
		perSecond, callers int
		slack              time.Duration
		within             float64

		count, last atomic.Int64
		bound       bounded
	}
	runs := []*run{
		{perSecond: 100, callers: 1, slack: time.Second, within: 0.005},
		{perSecond: 1000, callers: 1, slack: time.Second, within: 0.005},
		{perSecond: 1000, callers: 64, slack: time.Second, within: 0.005},
		// A caller that is sent off the processor on its own way, and not in the gate, is
		// absent: at a high rate, where callers hardly ever wait, that is felt.
		{perSecond: 20_000, callers: 64, slack: time.Second, within: 0.05},
		// Each of these gets to run a few times a second only: all that are due must go at once.
		{perSecond: 20_000, callers: 500, slack: time.Second, within: 0.05},
		// What is beyond the slack is lost.
		{perSecond: 1000, callers: 1, slack: 10 * time.Millisecond, within: 1},
	}
	for _, r := range runs {
		g := gate.NewRate(pace.PerSecond(r.perSecond), &gate.RateOptions{Slack: r.slack})
		g.Allow()
		began := time.Now()
		r.bound = bounded{perSecond: float64(r.perSecond), burst: 1, slack: r.slack}
		for range r.callers {
			all.Go(func() {
				for {
					before := time.Since(began)
					if g.Wait(ctx) != nil {
						return
					}
					after := time.Since(began)
					r.last.Store(int64(after))
					r.count.Add(1)
					if r.callers == 1 {
						r.bound.saw(before, after)
					}
				}
			})
		}
	}
	all.Wait()
	for _, r := range runs {
		name := fmt.Sprintf("%d/s, %d callers, slack %v", r.perSecond, r.callers, r.slack)
		want := float64(r.perSecond) * time.Duration(r.last.Load()).Seconds()
		off := float64(r.count.Load())/want - 1
		t.Logf("%s: %+.3f %%", name, 100*off)
		if d >= time.Minute && (off < -r.within || off > r.within) {
			t.Errorf("%s: %d tokens, want %.0f", name, r.count.Load(), want)
		}
		if r.bound.worst > 0 {
			t.Errorf("%s: over the bound by %.1f tokens", name, r.bound.worst)
		}
	}
}

// TestSoakStopped stops a process that goes at 1,000 a second again and again, for half a
// second each, as a debugger, a container's freezer or a laptop's lid does. When it goes on
// it does not burst.
func TestSoakStopped(t *testing.T) {
	if os.Getenv("ESCAPEMENT_SOAK_CHILD") != "" {
		g := gate.NewRate(pace.PerSecond(1000), nil)
		began := time.Now()
		bound := bounded{perSecond: 1000, burst: 1, slack: 100 * time.Millisecond}
		for stop := soakFor(t); time.Since(began) < stop; {
			before := time.Since(began)
			g.Wait(t.Context())
			bound.saw(before, time.Since(began))
		}
		if t.Logf("%.0f tokens, the most in any window is %.1f below the bound", bound.n, -bound.worst); bound.worst > 0 {
			t.Errorf("over the bound by %.1f tokens", bound.worst)
		}
		return
	}
	d := soakFor(t)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSoakStopped$", "-test.v", "-test.timeout=0")
	child.Env = append(os.Environ(), "ESCAPEMENT_SOAK_CHILD=1", "ESCAPEMENT_SOAK="+min(d, time.Minute).String())
	var out strings.Builder
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for i := 0; ; i++ {
		select {
		case err := <-ended:
			if t.Logf("stopped %d times\n%s", i/2, out.String()); err != nil {
				t.Error(err)
			}
			return
		case <-time.After(500 * time.Millisecond):
			child.Process.Signal([]os.Signal{syscall.SIGSTOP, syscall.SIGCONT}[i%2])
		}
	}
}
