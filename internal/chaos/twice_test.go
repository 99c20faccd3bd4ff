package chaos_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// Of two calls of Leave at once, or of Settle, exactly one panics, and the other one counts. A Concurrency by
// itself does not promise that.
func TestTwiceAtOnce(t *testing.T) {
	slots := func() gate.Gate { return gate.NewConcurrency(100) }
	answered := func() gate.Gate {
		return gate.NewWindow(100, 1e6*time.Hour, &gate.WindowOptions{UntilAnswer: true})
	}
	key := func() gate.Gate { return gate.NewKeyed(func(int) gate.Gate { return slots() }, nil).For(1) }
	for name, make := range map[string]func() gate.Gate{
		"answered": answered, "key": key,
		"All of slots":    func() gate.Gate { return gate.All(slots(), gate.Each(slots())) },
		"All of answered": func() gate.Gate { return gate.All(answered(), slots()) },
		"All of a key":    func() gate.Gate { return gate.All(key(), answered()) },
	} {
		for call, f := range map[string]func(gate.Pass){
			"Leave":  func(p gate.Pass) { p.Leave(nil) },
			"Settle": func(p gate.Pass) { p.Settle(0) },
		} {
			for range 300 {
				g := make()
				p, _ := g.TryEnter(2)
				var both sync.WaitGroup
				var panics atomic.Int32
				for range 2 {
					both.Go(func() {
						defer func() {
							if recover() != nil {
								panics.Add(1)
							}
						}()
						f(p)
					})
				}
				both.Wait()
				if n := panics.Load(); n != 1 {
					t.Fatalf("%s: %d of two calls of %s panic", name, n, call)
				}
				if call == "Settle" {
					p.Leave(nil)
					if s, _ := gate.StatsOf(g); s.InUse > 1 { // what a view has charged stays
						t.Fatalf("%s: settled to nothing: %+v", name, s)
					}
				}
				if s, _ := gate.StatsOf(g); s.Waiting != 0 || s.Granted != 1 {
					t.Fatalf("%s: %+v", name, s)
				}
			}
		}
	}
}
