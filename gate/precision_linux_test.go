package gate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// Who waits for time has the process woken for it, on the real clock, if that is what the
// gate is for. The waits are of hours, so that no other test's can be mistaken for them.
func TestPrecision(t *testing.T) {
	slow, fast := pace.Every(20*time.Hour), pace.PerSecond(1e6)
	precision := func(r pace.Rate, p pace.Precision) *gate.Rate {
		return gate.NewRate(r, &gate.RateOptions{Precision: p})
	}
	changed := func(from, to pace.Rate) gate.Gate {
		g := precision(from, pace.PrecisionAuto)
		g.SetRate(to)
		return g
	}
	adaptive := gate.NewAdaptive(fast, nil)
	adaptive.Hold(20 * time.Hour)
	slowed := gate.NewAdaptive(pace.PerSecond(100_000), &gate.AdaptiveOptions{Backoff: 1000})
	if p, ok := slowed.TryEnter(1); ok {
		p.Leave(gate.Throttled(20*time.Hour, nil))
	}
	for _, c := range []struct {
		name string
		g    gate.Gate
		want bool
	}{
		{"Auto", precision(slow, pace.PrecisionAuto), true},
		{"Auto at a high rate", precision(fast, pace.PrecisionAuto), false},
		{"Auto, made slow", changed(fast, slow), true},
		{"Auto, made fast", changed(slow, fast), false},
		{"Precise", precision(fast, pace.PrecisionPrecise), true},
		{"Coalesced", precision(slow, pace.PrecisionCoalesced), false},
		{"Window", gate.NewWindow(1, 20*time.Hour, nil), true},
		{"Window of many", gate.NewWindow(1e9, 20*time.Hour, nil), false},
		{"Adaptive", gate.NewAdaptive(slow, &gate.AdaptiveOptions{Slowest: 20 * time.Hour}), true},
		{"Adaptive at a high rate", adaptive, false},
		{"Adaptive, throttled", slowed, true},
		{"All", gate.All(precision(slow, pace.PrecisionAuto), gate.NewConcurrency(1)), true},
		{"All of coalesced", gate.All(precision(slow, pace.PrecisionCoalesced), gate.NewConcurrency(1)), false},
	} {
		g := c.g
		if h, ok := g.(interface{ Hold(time.Duration) }); ok && !strings.HasPrefix(c.name, "All") {
			h.Hold(19 * time.Hour)
		} else {
			g.TryEnter(1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := g.Enter(ctx, 1)
			done <- err
		}()
		for waiting := 0; waiting == 0; runtime.Gosched() {
			s, _ := gate.StatsOf(g)
			waiting = s.Waiting
		}
		if got := remaining(t) > 18*time.Hour; got != c.want {
			t.Errorf("%s: a wake-up is asked for: %v, want %v", c.name, got, c.want)
		}
		cancel()
		<-done
		// What was armed stays so until somebody else waits.
		other := gate.NewRate(pace.PerHour(1), nil)
		other.Allow()
		ctx, cancel = context.WithCancel(t.Context())
		go func() { done <- other.Wait(ctx) }()
		for other.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		if d := remaining(t); d > time.Hour || d < time.Minute {
			t.Errorf("%s: after it was cancelled the next wake-up is in %v, want an hour", c.name, d)
		}
		cancel()
		<-done
	}
}

// remaining returns for how long the process's timerfd, if there is one, is armed.
func remaining(t *testing.T) (d time.Duration) {
	t.Helper()
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if link, _ := os.Readlink(fd); link != "anon_inode:[timerfd]" {
			continue
		}
		info, err := os.ReadFile(strings.Replace(fd, "/fd/", "/fdinfo/", 1))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(info)) {
			var sec, nsec int64
			if n, _ := fmt.Sscanf(line, "it_value: (%d, %d)", &sec, &nsec); n == 2 {
				d = time.Duration(sec)*time.Second + time.Duration(nsec)
			}
		}
	}
	return d
}
