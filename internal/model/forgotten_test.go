package model

import (
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
)

// After thousands of entries without a Settle, a pass that has been left may be forgotten. Then a Settle
// refunds nothing. It charges what the entry owes, or all of it again if the entry came with several costs.
// A second Leave panics as ever. From the first Settle on, passes are kept.
func TestForgottenPasses(t *testing.T) {
	for _, c := range []struct{ until, all, each bool }{
		{true, false, false}, {false, true, false}, {true, true, false}, {false, true, true}, {true, true, true},
	} {
		bubble.Both(t, func(b *bubble.B) {
			w := gate.NewWindow(1<<30, time.Hour, &gate.WindowOptions{UntilAnswer: c.until, Clock: b.Clock()})
			a := gate.All(w, gate.NewConcurrency(10))
			run := func(n int) (passes []gate.Pass) {
				for range n {
					var pass gate.Pass
					var ok bool
					switch {
					case c.each:
						pass, ok = a.TryEnterEach(3, 1)
					case c.all:
						pass, ok = a.TryEnter(3)
					default:
						pass, ok = w.TryEnter(3)
					}
					if !ok {
						b.Fatal("refused")
					}
					pass.Leave(nil)
					passes = append(passes, pass)
				}
				return passes
			}
			settle := func(p gate.Pass, actual int) (moved int) {
				before := w.Stats().InUse
				if c.each {
					p.SettleEach(actual, 1)
				} else {
					p.Settle(actual)
				}
				return w.Stats().InUse - before
			}
			panics := func(f func()) (does bool) {
				defer func() { does = recover() != nil }()
				f()
				return false
			}
			passes := run(10_000)
			most := 10 - 3
			if c.each {
				most = 10
			}
			for i, p := range passes {
				if !panics(func() { p.Leave(nil) }) {
					b.Fatalf("%+v: a second Leave of pass %d does not panic", c, i)
				}
				switch moved := 0; {
				case i%1000 == 1:
					if moved = settle(p, 10); moved != 10-3 && moved != most {
						b.Errorf("%+v: Settle(10) of pass %d charges %d, want %d or %d", c, i, moved, 10-3, most)
					}
				case i%1000 == 2:
					if moved = settle(p, 0); moved != 0 && moved != -3 {
						b.Errorf("%+v: Settle(0) of pass %d charges %d, want 0 or -3", c, i, moved)
					}
				}
			}
			for i, p := range run(10_000) {
				if moved := settle(p, 1); moved != -2 {
					b.Fatalf("%+v: Settle(1) of pass %d, after the first Settle, charges %d, want -2", c, i, moved)
				}
				if !panics(func() { settle(p, 1) }) || !panics(func() { p.Leave(nil) }) {
					b.Fatalf("%+v: a second call for pass %d does not panic", c, i)
				}
			}
			if a.Stats().InUse != w.Stats().InUse {
				b.Errorf("%+v: slots in use in the end: %+v", c, a.Stats())
			}
		})
	}
}
