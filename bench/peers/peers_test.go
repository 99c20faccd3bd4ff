package peers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// In a bubble no caller is late, so every limiter holds its rate, at exactly one token an interval.
// Limiters that are not Deaf look at their context.
func TestAll(t *testing.T) {
	all := peers.All()
	for _, c := range append(all, peers.Busy(all[:1])[1:]...) { // and Hasty
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := measure.Run(t.Context(), c, measure.Case{PerSecond: 1000, Callers: 3, Duration: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				if r.Tokens < 999 || r.Tokens > 1001 || r.Rate < 999.99 || r.Rate > 1000.01 || r.Gap.Max() > 1000 {
					t.Errorf("%d tokens, %v/s, gap error up to %d ns", r.Tokens, r.Rate, r.Gap.Max())
				}
			})
			if !c.Deaf {
				synctest.Test(t, func(t *testing.T) { listens(t, c.New(1)) })
			}
		})
	}
}

// listens checks that a wait ends with its context.
func listens(t *testing.T, l measure.Limiter) {
	if s, ok := l.(interface{ Stop() }); ok {
		defer s.Stop()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	began := time.Now()
	var err error
	for range 4 {
		if err = l.Wait(ctx); err != nil {
			break
		}
	}
	if err == nil || time.Since(began) > 1500*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// The names that targets speak of are there, once.
func TestNames(t *testing.T) {
	seen := map[string]int{}
	for _, c := range peers.All() {
		seen[c.Name]++
	}
	for _, name := range []string{peers.Auto, peers.Precise, peers.Coalesced, peers.XTime} {
		if seen[name] != 1 {
			t.Errorf("%s is there %d times", name, seen[name])
		}
	}
}

// Those that can be measured as they are.
var _ measure.Limiter = (*rate.Limiter)(nil)
