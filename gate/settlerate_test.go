package gate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// 400 callers in a loop, each with a timeout, that enter at a cost of 2 and settle for 1: a window of
// 100 a second admits all but the last token, for which 2 find no room, whatever the timeout.
func TestWindowSettledUnderTimeouts(t *testing.T) {
	for _, timeout := range []time.Duration{time.Hour, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const callers, seconds = 400, 10
			g := gate.NewWindow(100, time.Second, nil)
			ctx, stop := context.WithCancel(context.Background())
			in := make(chan bool, 1<<16)
			for range callers {
				go func() {
					for ctx.Err() == nil {
						ctx, cancel := context.WithTimeout(ctx, timeout)
						p, err := g.Enter(ctx, 2)
						cancel()
						if err == nil {
							p.Settle(1)
							in <- true
						}
					}
				}()
			}
			time.Sleep(seconds*time.Second - 1)
			stop()
			synctest.Wait()
			if n := len(in); n != 99*seconds {
				t.Errorf("timeout %v: %d entries in %d s, want %d", timeout, n, seconds, 99*seconds)
			}
		})
	}
}
