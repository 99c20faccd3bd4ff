package group_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

func checkStats(t *testing.T, what string, m *group.Meter, want group.Stats) {
	t.Helper()
	synctest.Wait()
	if got := m.Stats(); got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// A meter says at any time where each worker is.
func TestMeter(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			var m group.Meter
			in, goOn, slots := make(chan int), make(chan struct{}), gate.NewConcurrency(2)
			out := group.TryMap(g, in, func(_ context.Context, n int) (int, error) {
				<-goOn
				return n, errOne
			}, &group.Stage{Workers: 4, Ordered: ordered, Buffer: -1, Gate: slots, Meter: &m})
			checkStats(t, "at first", &m, group.Stats{Idle: 4})
			in <- 0
			checkStats(t, "one", &m, group.Stats{In: 1, Idle: 3, InFlight: 1})
			in <- 1
			in <- 2
			checkStats(t, "three", &m, group.Stats{In: 3, Idle: 1, AtGate: 1, InFlight: 2})
			goOn <- struct{}{}
			goOn <- struct{}{}
			if !ordered {
				checkStats(t, "two done", &m, group.Stats{In: 3, Errors: 2, Idle: 1, InFlight: 1, Blocked: 2})
			}
			goOn <- struct{}{}
			if ordered {
				checkStats(t, "all done", &m, group.Stats{In: 3, Errors: 3, Idle: 3, Blocked: 1})
			}
			for range 3 {
				<-out
			}
			checkStats(t, "all out", &m, group.Stats{In: 3, Out: 3, Errors: 3, Idle: 4})
			close(in)
			checkStats(t, "at the end", &m, group.Stats{In: 3, Out: 3, Errors: 3})

			// Another stage adds to it.
			filtered := group.FilterMap(g, counted(10), func(_ context.Context, n int) (int, bool, error) { return n, n < 4, nil },
				&group.Stage{Workers: 2, Ordered: ordered, Meter: &m})
			if got, err := group.Collect(g, filtered); len(got) != 4 || err != nil {
				t.Errorf("got %v and %v", got, err)
			}
			checkStats(t, "after another stage", &m, group.Stats{In: 13, Out: 7, Errors: 3})
			checkWait(t, g, nil)
		})
	}
}

// Where nobody takes results, all workers of an ordered stage are blocked; where a slow head
// is the reason, they are idle.
func TestMeterOfOrder(t *testing.T) {
	for _, slow := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			var m group.Meter
			goOn := make(chan struct{})
			out := group.Map(g, counted(10), func(_ context.Context, n int) (int, error) {
				if n == 0 && slow {
					<-goOn
				}
				return n, nil
			}, &group.Stage{Workers: 3, Ordered: true, Buffer: -1, Meter: &m})
			if slow {
				checkStats(t, "slow head", &m, group.Stats{In: 3, Idle: 2, InFlight: 1})
			}
			close(goOn)
			checkStats(t, "no reader", &m, group.Stats{In: 3, Blocked: 3})
			<-out // which is room for one more
			checkStats(t, "one read", &m, group.Stats{In: 4, Out: 1, Blocked: 3})
			if got, err := group.Collect(g, out); len(got) != 9 || err != nil {
				t.Errorf("got %v and %v", got, err)
			}
		})
	}
}

// So they are if they waited for one another, because items come one by one, when the last of
// the look-ahead was used up.
func TestMeterOfOrderOneByOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		var m group.Meter
		in := make(chan int)
		out := group.Map(g, in, func(_ context.Context, n int) (int, error) { return n, nil },
			&group.Stage{Workers: 3, Ordered: true, Buffer: -1, Meter: &m})
		for i := range 3 {
			checkStats(t, "more to come", &m, group.Stats{In: uint64(i), Idle: 3 - min(i, 1), Blocked: min(i, 1)})
			in <- i
		}
		checkStats(t, "no reader", &m, group.Stats{In: 3, Blocked: 3})
		<-out
		checkStats(t, "one read", &m, group.Stats{In: 3, Out: 1, Idle: 2, Blocked: 1})
		close(in)
		if got, err := group.Collect(g, out); len(got) != 2 || err != nil {
			t.Errorf("got %v and %v", got, err)
		}
	})
}

func TestMeterOfFlatMapAndForEach(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			var m group.Meter
			out := group.FlatMap(g, counted(2), func(_ context.Context, n int, send func(int) bool) error {
				time.Sleep(ms)
				send(1)
				send(2)
				time.Sleep(ms)
				return nil
			}, &group.Stage{Workers: 2, Ordered: ordered, Buffer: -1, Meter: &m})
			checkStats(t, "at first", &m, group.Stats{In: 2, InFlight: 2})
			time.Sleep(ms)
			checkStats(t, "sending", &m, group.Stats{In: 2, Blocked: 2})
			<-out
			<-out
			time.Sleep(ms)
			if s := m.Stats(); s.Out < 2 || s.Out > 3 {
				t.Errorf("after two: %+v", s)
			}
			<-out
			<-out
			time.Sleep(5 * ms)
			checkStats(t, "at the end", &m, group.Stats{In: 2, Out: 4})
		})
	}
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		var m group.Meter
		err := group.ForEach(g, counted(10), func(_ context.Context, n int) error {
			if n == 3 {
				if s := m.Stats(); s != (group.Stats{In: 4, InFlight: 1}) {
					t.Errorf("in f: %+v", s)
				}
				return errOne
			}
			return nil
		}, &group.Stage{Meter: &m})
		if !errors.Is(err, errOne) {
			t.Error(err)
		}
		checkStats(t, "at the end", &m, group.Stats{In: 4, Errors: 1})
	})
}
