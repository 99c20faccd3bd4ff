package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/escapement-go/escapement/gate"
)

// slots are a semaphore. Its loops enter and leave n times.
type slots struct {
	name string
	try  loop
	wait func(ctx context.Context, n int)
}

// semaphores returns semaphores of each kind with n slots each. A buffered channel stands for a
// program without a semaphore.
func semaphores(n int) []slots {
	g := gate.NewConcurrency(n)
	s := semaphore.NewWeighted(int64(n))
	c := make(chan struct{}, n)
	return []slots{
		{"escapement", func(n int) {
			for range n {
				if p, ok := g.TryEnter(1); ok {
					p.Leave(nil)
				}
			}
		}, func(ctx context.Context, n int) {
			for range n {
				if p, err := g.Enter(ctx, 1); err == nil {
					p.Leave(nil)
				}
			}
		}},
		{peer, func(n int) {
			for range n {
				if s.TryAcquire(1) {
					s.Release(1)
				}
			}
		}, func(ctx context.Context, n int) {
			for range n {
				if s.Acquire(ctx, 1) == nil {
					s.Release(1)
				}
			}
		}},
		{"channel", func(n int) {
			for range n {
				select {
				case c <- struct{}{}:
					<-c
				default:
				}
			}
		}, func(ctx context.Context, n int) {
			for range n {
				select {
				case c <- struct{}{}:
					<-c
				case <-ctx.Done():
				}
			}
		}},
	}
}

// peer is the semaphore that the others are compared with.
const peer = "x-sync-semaphore"

// BenchmarkSlotTry is an entry to a semaphore with a free slot, without waiting, and the way out.
// It is compared with the semaphore of x/sync.
func BenchmarkSlotTry(b *testing.B) {
	slotBySlot(b, func(_ *testing.B, s slots) loop { return s.try })
}

// BenchmarkSlotWait is the same with a context that can be cancelled.
func BenchmarkSlotWait(b *testing.B) {
	slotBySlot(b, func(b *testing.B, s slots) loop {
		return func(n int) { s.wait(b.Context(), n) }
	})
}

func slotBySlot(b *testing.B, of func(*testing.B, slots) loop) {
	all := semaphores(8)
	theirs := all[slices.IndexFunc(all, func(s slots) bool { return s.name == peer })]
	for _, s := range all {
		b.Run("by="+s.name, func(b *testing.B) {
			b.ReportAllocs()
			l := of(b, s)
			l(b.N)
			against(b, "×"+peer, of(b, theirs), l)
		})
	}
}

// BenchmarkSlotTryParallel is BenchmarkSlotTry from all processors at once. On a machine with more
// than 8 of them, some are refused.
func BenchmarkSlotTryParallel(b *testing.B) {
	for _, s := range semaphores(8) {
		b.Run("by="+s.name, func(b *testing.B) {
			b.ReportAllocs()
			together(b.N, s.try)
		})
	}
}

// BenchmarkHandOver is an entry to a single slot that others wait for, too, and its processor
// time.
func BenchmarkHandOver(b *testing.B) {
	for _, waiters := range []int{1, 64, 10_000} {
		for _, s := range semaphores(1) {
			b.Run(fmt.Sprintf("waiters=%d/by=%s", waiters, s.name), func(b *testing.B) {
				b.ReportAllocs()
				var left atomic.Int64
				left.Store(int64(b.N))
				processor(b, func() {
					var wg sync.WaitGroup
					for range waiters + 1 {
						wg.Go(func() {
							for left.Add(-1) >= 0 {
								s.wait(b.Context(), 1)
							}
						})
					}
					wg.Wait()
				})
			})
		}
	}
}
