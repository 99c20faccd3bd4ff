package chaos_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
)

// Two callers bring the last key that there is room for at once: both make its gate, one in vain,
// and both get in, because the key is remembered by then.
func TestKeyedTwoBringTheLastKey(t *testing.T) {
	for _, room := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			k := gate.NewKeyed(func(int) gate.Gate {
				time.Sleep(time.Second) // so that the other caller makes one, too
				return gate.NewConcurrency(4)
			}, &gate.KeyedOptions{MaxKeys: room})
			for busy := range room - 1 {
				k.Enter(context.Background(), busy, 1)
			}
			errs := make(chan error)
			for range 2 {
				go func() {
					_, err := k.Enter(context.Background(), 7, 1)
					errs <- err
				}()
			}
			for range 2 {
				if err := <-errs; err != nil {
					t.Errorf("MaxKeys %d: %v; %d keys are remembered", room, err, k.Len())
				}
			}
		})
	}
}
