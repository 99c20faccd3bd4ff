package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/escapement-go/escapement/gate"
)

// Callers who bring the same new key at once share its gate, also where it takes the last place.
func TestKeyedSameNewKeyAtOnce(t *testing.T) {
	for range 2000 {
		k := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(8) }, &gate.KeyedOptions{MaxKeys: 1})
		var in atomic.Int64
		var all sync.WaitGroup
		start := make(chan struct{})
		for range 8 {
			all.Go(func() {
				<-start
				if _, ok := k.TryEnter(1, 1); ok {
					in.Add(1)
				}
			})
		}
		close(start)
		all.Wait()
		if n, s := in.Load(), k.Stats(); n != 8 || s.NoRoom != 0 {
			t.Fatalf("%d of 8 got in, and there was no room %d times", n, s.NoRoom)
		}
	}
}
