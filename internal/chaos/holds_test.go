package chaos_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/group"
	"pgregory.net/rapid"
)

// A stage holds at most Workers + Buffer items, or Workers + 2·Buffer if it is ordered, also while
// no reader takes a result and while one item takes much longer than the others.
func TestStageHoldsAtMost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := drawNode(rt, []string{"map", "filter", "flatmap"}, 0)
		slow := rapid.IntRange(0, 90).Draw(rt, "slow item")
		reads := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 5).Draw(rt, "reads")
		inBubble(t, rt, func() error { return n.holds(slow, reads) })
	})
}

// holds reads so many results at a time, and compares what is in the stage with its bound.
func (n node) holds(slow int, reads []int) (err error) {
	g, _ := group.WithContext(context.Background())
	in, taken, read := make(chan int), atomic.Int64{}, 0
	go func() {
		defer close(in)
		for i := range 5000 {
			in <- i
			taken.Add(1)
		}
	}()
	work := func(x int) int {
		if x == slow {
			time.Sleep(time.Hour)
		}
		return x
	}
	var out <-chan int
	s := &group.Stage{Workers: n.Workers, Ordered: n.Ordered, Buffer: n.Buffer}
	switch n.Kind {
	case "map":
		out = group.Map(g, in, func(_ context.Context, x int) (int, error) { return work(x), nil }, s)
	case "filter":
		out = group.FilterMap(g, in, func(_ context.Context, x int) (int, bool, error) { return work(x), true, nil }, s)
	case "flatmap":
		out = group.FlatMap(g, in, func(_ context.Context, x int, send func(int) bool) error {
			send(work(x))
			return nil
		}, s)
	}
	workers, buffer := max(1, n.Workers), max(0, n.Buffer)
	if n.Buffer == 0 {
		buffer = max(64, workers)
	}
	most := workers + buffer
	if n.Ordered {
		most += buffer
	}
	for _, k := range reads {
		for range k {
			<-out
			read++
		}
		synctest.Wait()
		if held := int(taken.Load()) - read; held > most {
			err = fmt.Errorf("%+v: %d items in the stage, at most %d", n, held, most)
		}
	}
	group.First(g, out)
	for range in { // lets the source end
	}
	return err
}
