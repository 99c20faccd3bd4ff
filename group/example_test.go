package group_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

// Fetch fourteen pages, a hundred a second after the first twenty, and at most four at
// once.
func Example() {
	g, ctx := group.WithContext(context.Background())
	g.SetGate(gate.All(
		gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: 20}),
		gate.NewConcurrency(4),
	))
	pages := make([]string, 14)
	for i := range pages {
		g.Go(func() (err error) {
			pages[i], err = fetch(ctx, i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(pages), "pages, the last is", pages[13])
	// Output: 14 pages, the last is page 13
}

// fetch stands for a call of a remote API.
func fetch(ctx context.Context, i int) (string, error) {
	return fmt.Sprint("page ", i), ctx.Err()
}

// A zero Group needs no context.
func ExampleGroup() {
	var g group.Group
	var sum atomic.Int64
	for i := range 10 {
		g.Go(func() error {
			sum.Add(int64(i))
			return nil
		})
	}
	fmt.Println(g.Wait(), sum.Load())
	// Output: <nil> 45
}

// The first failure ends the context of all.
func ExampleWithContext() {
	g, ctx := group.WithContext(context.Background())
	g.Go(func() error {
		<-ctx.Done()
		return ctx.Err()
	})
	g.Go(func() error { return errors.New("no such host") })
	fmt.Println(g.Wait())
	fmt.Println(context.Cause(ctx))
	// Output:
	// no such host
	// no such host
}

// Go does not wait for the gate, which here admits one job an hour. A failure reaches the jobs that
// wait there.
func ExampleGroup_Go() {
	hour := gate.NewRate(pace.PerHour(1), nil)
	var g group.Group
	g.SetGate(hour)
	g.Go(func() error { return errors.New("the disk is full") })
	for range 1000 {
		g.Go(func() error { return errors.New("the disk is full") })
	}
	fmt.Println(g.Wait())
	fmt.Println(hour.Stats().Granted, "was admitted")
	// Output:
	// the disk is full
	// 1 was admitted
}

// Jobs that are more work than others take more of the gate.
func ExampleGroup_GoCost() {
	var g group.Group
	g.SetGate(gate.NewConcurrency(8))
	for _, megabytes := range []int{1, 5, 3, 8, 2} {
		g.GoCost(megabytes, func() error { return nil }) // at most 8 MB at once
	}
	fmt.Println(g.Wait())

	g.GoCost(9, func() error { return nil })
	fmt.Println(g.Wait())
	// Output:
	// <nil>
	// gate: cost must be at most the capacity of 8, got 9
}

// Each job is charged an estimate, and settles what it has cost.
func ExampleGroup_GoEach() {
	requests := gate.NewWindow(50, time.Minute, nil)
	tokens := gate.NewWindow(10_000, time.Minute, nil)
	var g group.Group
	g.SetGate(gate.All(requests, tokens))
	for _, used := range []int{900, 300, 1_200} {
		g.GoEach(func(ctx context.Context) error {
			pass, _ := gate.PassOf(ctx)
			pass.SettleEach(1, used)
			return nil
		}, 1, 1_500) // one cost for each gate
	}
	fmt.Println(g.Wait(), requests.Stats().InUse, tokens.Stats().InUse)
	// Output: <nil> 3 2400
}

// A job that can't start now is skipped.
func ExampleGroup_TryGo() {
	var g group.Group
	g.SetGate(gate.NewRate(pace.PerHour(2), &gate.RateOptions{Burst: 2}))
	for i := range 4 {
		fmt.Println(i, g.TryGo(func() error { return nil }))
	}
	fmt.Println(g.Wait())
	// Output:
	// 0 true
	// 1 true
	// 2 false
	// 3 false
	// <nil>
}

// A run that was cut short does not look complete: the jobs that never ran are an error.
func ExampleGroup_Wait() {
	ctx, cancel := context.WithCancelCause(context.Background())
	g, _ := group.WithContext(ctx)
	g.SetGate(gate.NewRate(pace.PerHour(1), nil))
	first := make(chan struct{})
	g.Go(func() error { close(first); return nil })
	<-first
	g.Go(func() error { return nil })
	cancel(errors.New("interrupted"))
	fmt.Println(g.Wait())
	// Output: interrupted
}

// A limit makes Go wait, so that there are never more than that many goroutines.
func ExampleGroup_SetLimit() {
	var g group.Group
	g.SetLimit(3)
	var active, most atomic.Int32
	for range 100 {
		g.Go(func() error {
			now := active.Add(1)
			defer active.Add(-1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			return nil
		})
	}
	fmt.Println(g.Wait(), most.Load() <= 3)
	// Output: <nil> true
}

// At most twenty jobs in any 40 milliseconds, those of both groups together.
func ExampleGroup_SetGate() {
	window := gate.NewWindow(20, 40*time.Millisecond, nil)
	var readers, writers group.Group
	readers.SetGate(window)
	writers.SetGate(window)
	for range 10 {
		readers.Go(func() error { return nil })
		writers.Go(func() error { return nil })
	}
	fmt.Println(readers.Wait(), writers.Wait())
	fmt.Println(window.Stats().Granted)
	// Output:
	// <nil> <nil>
	// 20
}
