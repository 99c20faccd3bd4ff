package gatetest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/gatetest"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// What a gate that can be held may do wrong, and the checks that find it out.
const (
	ignoresHolds     fault = "a hold does nothing"
	holdsNewcomers   fault = "a hold is not for those who wait"
	holdsEnterOnly   fault = "a hold is not for TryEnter"
	shortensHolds    fault = "the last hold counts"
	holdsBackward    fault = "a negative hold is one"
	holdsForEver     fault = "a hold has no end"
	surprises        fault = "a deadline in a hold is waited for"
	forgetsWaiters   fault = "who waits is not told that the hold outlasts the deadline"
	deafInHold       fault = "a wait in a hold can't be cancelled"
	bursts           fault = "all that was saved up goes after a hold"
	holdsInSecret    fault = "the statistics know of no hold"
	holdsAndIsIdle   fault = "a held gate is idle"
	endsHoldInSecret fault = "the statistics know of no end of a hold"
	resumesNothing   fault = "Resume does nothing"
	resumesNewcomers fault = "Resume is not for those who wait"
	resumesOnce      fault = "after Resume there is no hold any more"
	resumesOneHold   fault = "Resume ends one of two holds"
	burstsAtResume   fault = "all that was saved up goes after Resume"
	fillsAtResume    fault = "Resume without a hold fills the bucket"
	emptiesAtResume  fault = "Resume without a hold empties the bucket"
	resumesInSecret  fault = "the statistics know of no Resume"
)

var heldWrong = map[fault][]string{
	ignoresHolds:     {"hold", "hold length", "hold and deadline", "hold in stats"},
	holdsNewcomers:   {"hold"},
	holdsEnterOnly:   {"hold"},
	shortensHolds:    {"hold length"},
	holdsBackward:    {"hold length"},
	holdsForEver:     {"hold", "hold length"},
	surprises:        {"hold and deadline"},
	forgetsWaiters:   {"hold and deadline"},
	deafInHold:       {"hold"},
	bursts:           {"after a hold"},
	holdsInSecret:    {"hold in stats"},
	holdsAndIsIdle:   {"hold in stats"},
	endsHoldInSecret: {"hold in stats"},
	resumesNothing:   {"resume", "after resume"},
	resumesNewcomers: {"resume", "after resume"},
	resumesOnce:      {"resume"},
	resumesOneHold:   {"resume"},
	burstsAtResume:   {"after resume"},
	fillsAtResume:    {"resume without a hold"},
	emptiesAtResume:  {"resume without a hold"},
	resumesInSecret:  {"resume"},
}

// heldWrongly is a rate that is held in a way of its own. Without a fault it hands the hold
// to the rate.
type heldWrongly struct {
	*gate.Rate
	fault fault
	clk   clock.Clock
	over  chan struct{}

	mu    sync.Mutex
	until time.Time
	d     time.Duration // of the last hold
	again chan struct{} // closed by Resume, for the entries that wait for until
	holds int
	ended bool // there was a Resume
}

func (g *heldWrongly) Hold(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until := g.clk.Now().Add(d)
	g.holds++
	switch {
	case g.fault == ignoresHolds, g.fault == resumesOnce && g.ended:
		return
	case g.fault == resumesNewcomers, g.fault == burstsAtResume:
		g.until = until
		return
	case g.fault == shortensHolds && d > 0, g.fault == bursts, g.fault == holdsNewcomers, g.fault == surprises, g.fault == deafInHold:
		if until.After(g.until) || g.fault == shortensHolds {
			g.until = until
		}
		return
	case g.fault == holdsBackward && d < 0:
		d = -d
	case g.fault == holdsForEver && d > 0:
		d = 1e6 * time.Hour
	case g.fault == endsHoldInSecret, g.fault == resumesInSecret:
		g.d = max(g.d, d)
	}
	if g.fault == forgetsWaiters && g.Rate.Stats().Waiting > 0 {
		return
	}
	g.Rate.Hold(d)
}

func (g *heldWrongly) Resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.ended = true; g.fault {
	case resumesNothing:
		return
	case resumesNewcomers:
		g.until = time.Time{}
	case burstsAtResume:
		if g.until = (time.Time{}); g.again != nil {
			close(g.again)
			g.again = nil
		}
	case resumesOneHold:
		if g.holds--; g.holds > 0 {
			return
		}
	case fillsAtResume:
		g.Rate = gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 4, Clock: g.clk})
	case emptiesAtResume:
		g.Rate.TryEnter(4)
	}
	g.Rate.Resume()
}

func (g *heldWrongly) rest() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until.Sub(g.clk.Now())
}

func (g *heldWrongly) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	for ctx != nil && ctx.Err() == nil && g.rest() > 0 {
		awake := make(chan struct{})
		t := g.clk.AfterFunc(g.rest(), func() { close(awake) })
		done := ctx.Done()
		if g.fault == deafInHold {
			done = nil
		}
		g.mu.Lock()
		if g.again == nil {
			g.again = make(chan struct{})
		}
		again := g.again
		g.mu.Unlock()
		select {
		case <-awake:
		case <-again:
		case <-done:
		case <-g.over:
		}
		t.Stop()
	}
	return g.Rate.Enter(ctx, cost)
}

func (g *heldWrongly) TryEnter(cost int) (gate.Pass, bool) {
	if g.rest() > 0 {
		return gate.Pass{}, false
	}
	if g.fault == holdsEnterOnly && g.Rate.Stats().HeldFor > 0 {
		return gate.Pass{}, true
	}
	return g.Rate.TryEnter(cost)
}

func (g *heldWrongly) Stats() gate.Stats {
	s := g.Rate.Stats()
	switch g.fault {
	case holdsInSecret:
		s.HeldFor = 0
	case holdsAndIsIdle:
		s.Idle = true
	case endsHoldInSecret, resumesInSecret:
		s.HeldFor = g.d
	}
	return s
}

func TestHoldChecksCanFail(t *testing.T) {
	for _, check := range gatetest.Checks() {
		for f, want := range wrongIn(check.Name) {
			t.Run(string(f)+"/"+check.Name, func(t *testing.T) {
				bubble.Both(t, func(b *bubble.B) {
					clk := b.Clock()
					if clk == nil {
						clk = clock.New()
					}
					over := make(chan struct{})
					said := record(b, check, gatetest.Subject{
						New: func(testing.TB) gate.Gate {
							return &heldWrongly{
								Rate:  gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 4, Clock: b.Clock()}),
								fault: f, clk: clk, over: over,
							}
						},
						Capacity: 4, Back: 10 * ms, Most: evenly(4, 10*ms), AfterHold: evenly(1, 10*ms), Foresees: true,
						Clock: b.Clock(), Advance: b.Advance,
					}, over)
					if got := len(said) > 0; got != want {
						t.Errorf("failed: %v, want %v\n%s", got, want, strings.Join(said, "\n"))
					}
				})
			})
		}
	}
}

// wrongIn returns the faults that the check finds out, and none, which passes.
func wrongIn(check string) map[fault]bool {
	in := map[fault]bool{}
	for f, checks := range heldWrong {
		for _, name := range checks {
			if name == check {
				in[f], in[none] = true, false
			}
		}
	}
	return in
}
