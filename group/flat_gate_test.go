package group_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
)

// several sends the results 1000·n, 1000·n+1, … of item n.
func several(results int) func(context.Context, int, func(int) bool) error {
	return func(_ context.Context, n int, send func(int) bool) error {
		for i := range results {
			if !send(1000*n + i) {
				return errors.New("send returned false")
			}
		}
		return nil
	}
}

// finishes runs f in a goroutine and reports whether it returned within an hour. If not, the
// pipeline is stuck: cancel frees it.
func finishes(b *bubble.B, cancel func(), f func()) bool {
	done := make(chan bool, 1)
	go func() {
		f()
		done <- true
	}()
	b.Advance(time.Hour)
	finished := len(done) == 1
	cancel()
	<-done
	return finished
}

// Later items fill the look-ahead and hold every slot while the item whose turn it is waits
// for one.
func TestFlatMapInOrderBehindSlots(t *testing.T) {
	for _, c := range []struct{ workers, slots, buffer, results, items int }{
		{2, 1, -1, 1, 2},
		{2, 1, 1, 3, 2},
		{3, 2, 1, 5, 10},
		{8, 4, 0, 200, 30},
		{8, 1, 7, 53, 30},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				g, _ := group.WithContext(ctx)
				slots := gate.NewConcurrency(c.slots)
				var got []int
				var err error
				if !finishes(b, cancel, func() {
					got, err = group.Collect(g, group.FlatMap(g, counted(c.items), several(c.results), &group.Stage{
						Workers: c.workers, Ordered: true, Buffer: c.buffer, Gate: slots,
					}, func(n int) int {
						if n%c.workers == 0 {
							b.Sleep(ms) // the others come first
						}
						return 1
					}))
				}) {
					b.Fatal("stuck")
				}
				var want []int
				for n := range c.items {
					for i := range c.results {
						want = append(want, 1000*n+i)
					}
				}
				if err != nil || !slices.Equal(got, want) {
					b.Errorf("got %v and %v, want %v", got, err, want)
				}
				if s := slots.Stats(); s.InUse != 0 || s.Granted != uint64(c.items) {
					b.Errorf("the gate's statistics are %+v", s)
				}
			})
		})
	}
}

// The stage that is to make room needs the slots that the stage before it holds.
func TestFlatMapSharesGateWithLaterStage(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprint("ordered ", ordered), func(t *testing.T) {
			bubble.Both(t, func(b *bubble.B) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				g, _ := group.WithContext(ctx)
				slots := gate.NewConcurrency(2)
				var got []int
				var err error
				if !finishes(b, cancel, func() {
					s := &group.Stage{Workers: 3, Ordered: ordered, Buffer: 5, Gate: slots}
					in := group.FlatMap(g, counted(6), several(100), s)
					got, err = group.Collect(g, group.Map(g, in, double, s))
				}) {
					b.Fatal("stuck")
				}
				slices.Sort(got)
				if err != nil || len(got) != 600 || len(slices.Compact(got)) != 600 {
					b.Errorf("got %d results and %v", len(got), err)
				}
			})
		})
	}
}

// What there is no room for is kept until the pass was left; the worker takes no other item
// before all of it was taken.
func TestGatedFlatMapKeepsWhatHasNoRoom(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			slots := gate.NewConcurrency(2)
			var began, ended atomic.Int64
			out := group.FlatMap(g, counted(10), func(ctx context.Context, n int, send func(int) bool) error {
				began.Add(1)
				defer ended.Add(1)
				return several(50)(ctx, n, send)
			}, &group.Stage{Workers: 2, Ordered: ordered, Buffer: 3, Gate: slots})
			for i := range 10 * 50 {
				synctest.Wait()
				// Each worker begins its next item when all but the buffer of the last was taken.
				if n, m := began.Load(), int64(2+(i+2*3)/50); n != ended.Load() || n > m {
					t.Fatalf("ordered %v: after %d results %d calls began and %d ended, want at most %d", ordered, i, n, ended.Load(), m)
				}
				if n := slots.Stats().InUse; n != 0 {
					t.Fatalf("ordered %v: %d slots are held while results wait", ordered, n)
				}
				<-out
			}
			checkWait(t, g, nil)
		})
	}
}

// A result goes out while f runs if there is room for it, and those of an item stay in
// their order.
func TestGatedFlatMapSendsWhileItRuns(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for _, buffer := range []int{-1, 2} {
			inBubble(t, func(t *testing.T) {
				g, _ := group.WithContext(context.Background())
				step := make(chan bool)
				out := group.FlatMap(g, counted(1), func(_ context.Context, _ int, send func(int) bool) error {
					for i := range 20 {
						<-step
						if !send(i) {
							t.Error("send returned false")
						}
					}
					<-step
					return nil
				}, &group.Stage{Workers: 2, Ordered: ordered, Buffer: buffer, Gate: gate.NewConcurrency(1)})
				var got []int
				read := make(chan bool)
				go func() {
					for n := range out {
						got = append(got, n)
						if len(got) == 3 {
							<-read // from here on it is slow
						}
					}
					read <- true
				}()
				for i := range 20 {
					synctest.Wait()
					if want := min(i, 3); len(got) != want {
						t.Errorf("ordered %v, buffer %d: %d of %d results came, want %d", ordered, buffer, len(got), i, want)
					}
					step <- true
				}
				read <- true
				step <- true
				<-read
				if !slices.Equal(got, slices.Collect(upTo(20))) {
					t.Errorf("ordered %v, buffer %d: got %v", ordered, buffer, got)
				}
				checkWait(t, g, nil)
			})
		}
	}
}

// Kept results that find room while f still runs go out with the next one.
func TestGatedFlatMapCatchesUp(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			step := make(chan bool)
			out := group.FlatMap(g, counted(1), func(_ context.Context, _ int, send func(int) bool) error {
				for i := range 10 {
					send(i)
				}
				<-step
				send(10)
				<-step
				return nil
			}, &group.Stage{Workers: 2, Ordered: ordered, Buffer: 4, Gate: gate.NewConcurrency(1)})
			synctest.Wait()
			for i := range 3 {
				if n := <-out; n != i {
					t.Errorf("ordered %v: got %d, want %d", ordered, n, i)
				}
			}
			if n := len(out); n != 1 {
				t.Errorf("ordered %v: %d results wait, want 1", ordered, n)
			}
			step <- true
			synctest.Wait()
			if n := len(out); n != 4 {
				t.Errorf("ordered %v: after a send %d results wait, want 4", ordered, n)
			}
			close(step)
			if got, err := group.Collect(g, out); err != nil || !slices.Equal(got, []int{3, 4, 5, 6, 7, 8, 9, 10}) {
				t.Errorf("ordered %v: got %v and %v", ordered, got, err)
			}
		})
	}
}

// send tells an f that never waits for anything else that the pipeline has failed, and what was
// kept does not come out then.
func TestGatedFlatMapIsToldOfFailure(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			slots := gate.NewConcurrency(2)
			out := group.FlatMap(g, counted(4), func(_ context.Context, n int, send func(int) bool) error {
				for i := 0; send(i); i++ {
					if time.Sleep(ms); n == 1 && i == 100 {
						return errOne
					}
				}
				return errTwo
			}, &group.Stage{Workers: 2, Ordered: ordered, Buffer: 1, Gate: slots})
			synctest.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			n := 0
			for range out {
				n++
			}
			if n > 1 {
				t.Errorf("ordered %v: %d results came out of a buffer of 1", ordered, n)
			}
			if s := slots.Stats(); s.InUse != 0 {
				t.Errorf("ordered %v: %d slots are in use", ordered, s.InUse)
			}
			checkWait(t, g, errOne)
		})
	}
}

// A worker that hands on what was kept ends with the context.
func TestGatedFlatMapCancelledWhileHandingOn(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			g, _ := group.WithContext(ctx)
			var m group.Meter
			out := group.FlatMap(g, counted(4), several(100), &group.Stage{Workers: 2, Ordered: ordered, Buffer: 1, Gate: gate.NewConcurrency(2), Meter: &m})
			synctest.Wait()
			if s := m.Stats(); s.In != 2 || s.Blocked != 2 || s.InFlight != 0 {
				t.Errorf("ordered %v: %+v", ordered, s)
			}
			cancel(errOne)
			synctest.Wait()
			for range out {
			}
			checkWait(t, g, errOne)
		})
	}
}
