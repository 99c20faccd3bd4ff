package group_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

// Those who hand over jobs and wait, all in one group and each at its own pace, find their
// own jobs done, although the group falls idle and is used again while others still wait.
func TestWaitBesideGo(t *testing.T) {
	const callers, turns = 8, 500
	for name, g := range map[string]*group.Group{"no gate": new(group.Group), "gate": new(group.Group)} {
		if name == "gate" {
			g.SetGate(gate.NewRate(pace.Unlimited(), nil))
		}
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				done := 0
				for turn := range turns {
					// Without a lock: what the job did happened before Wait returned.
					g.Go(func() error { done++; return nil })
					if err := g.Wait(); err != nil || done != turn+1 {
						t.Errorf("%s: after turn %d Wait returned %v with %d jobs done", name, turn, err, done)
						return
					}
				}
			})
		}
		all.Wait()
		g.SetLimit(1) // panics unless the group is idle
	}
}

// All who wait are let go by the end of the last job, and by none before.
func TestManyWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const jobs, waiters = 3, 5
		g := new(group.Group)
		goOn, returned := make(chan struct{}), make(chan error, waiters)
		for round := range 2 {
			for range jobs {
				g.Go(func() error { <-goOn; return nil })
			}
			for range waiters {
				go func() { returned <- g.Wait() }()
			}
			for range jobs {
				synctest.Wait()
				if n := len(returned); n != 0 {
					t.Fatalf("round %d: %d waits returned before the last job", round, n)
				}
				goOn <- struct{}{}
			}
			synctest.Wait()
			if n := len(returned); n != waiters {
				t.Fatalf("round %d: %d of %d waits returned after the last job", round, n, waiters)
			}
			for range waiters {
				if err := <-returned; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// When Wait has returned, the places of the jobs are free.
func TestPlacesAreFreeAfterWait(t *testing.T) {
	g := new(group.Group)
	g.SetLimit(1)
	for range 5000 {
		if !g.TryGo(func() error { return nil }) {
			t.Fatal("the place of a job that was waited for is taken")
		}
		g.Wait()
	}
}
