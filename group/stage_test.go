package group_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

// count yields 0, 1, … without end.
func count(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

// upTo yields 0, 1, … n-1.
func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// counted is a channel of 0, 1, … n-1, as another library would give it.
func counted(n int) <-chan int {
	in := make(chan int, n)
	for i := range n {
		in <- i
	}
	close(in)
	return in
}

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

// plainStages are the ways from a channel of numbers to one of the same numbers.
var plainStages = map[string]func(g *group.Group, in <-chan int, s *group.Stage) <-chan int{
	"Map": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Map(g, in, func(_ context.Context, n int) (int, error) { return n, nil }, s)
	},
	"TryMap": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		results := group.TryMap(g, in, func(_ context.Context, n int) (string, error) { return fmt.Sprint(n), nil }, s)
		return group.Map(g, results, func(_ context.Context, r group.Result[int, string]) (int, error) {
			if r.Value != fmt.Sprint(r.Item) {
				return 0, fmt.Errorf("%d came to %q", r.Item, r.Value)
			}
			return r.Item, r.Err
		}, nil)
	},
	"FilterMap": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		twice := group.FlatMap(g, in, func(_ context.Context, n int, send func(int) bool) error {
			send(2 * n)
			send(2*n + 1)
			return nil
		}, nil)
		return group.FilterMap(g, twice, func(_ context.Context, n int) (int, bool, error) { return n / 2, n%2 == 0, nil }, s)
	},
	"FlatMap": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.FlatMap(g, in, func(_ context.Context, n int, send func(int) bool) error {
			send(n)
			return nil
		}, s)
	},
	"Batch": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Flatten(g, group.Batch(g, in, 7, nil))
	},
	"Batch by time": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Flatten(g, group.Batch(g, in, 7, &group.BatchOptions{Wait: time.Second}))
	},
	"Batch at once": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Flatten(g, group.Batch(g, in, 7, &group.BatchOptions{Wait: -1}))
	},
	"Merge": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int { return group.Merge(g, in) },
	"Tee": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		a, b := group.Tee(g, in)
		g.Go(func() error {
			return group.ForEach(g, b, func(context.Context, int) error { return nil }, nil)
		})
		return a
	},
	"Generate": func(g *group.Group, in <-chan int, s *group.Stage) <-chan int {
		return group.Generate(g, func(_ context.Context, send func(int) bool) error {
			for n := range in {
				if !send(n) {
					break
				}
			}
			return nil
		})
	},
}

// unordered says whether the stage may change the order.
func unordered(name string, s *group.Stage) bool {
	switch name {
	case "Map", "TryMap", "FilterMap", "FlatMap":
		return s != nil && s.Workers > 1 && !s.Ordered
	}
	return false
}

// sinks read a channel of numbers to its end.
var sinks = map[string]func(g *group.Group, in <-chan int) ([]int, error){
	"Collect": group.Collect[int],
	"Reduce": func(g *group.Group, in <-chan int) ([]int, error) {
		return group.Reduce(g, in, nil, func(_ context.Context, all []int, n int) ([]int, error) { return append(all, n), nil })
	},
	"ForEach": func(g *group.Group, in <-chan int) (all []int, err error) {
		err = group.ForEach(g, in, func(_ context.Context, n int) error { all = append(all, n); return nil }, nil)
		return all, err
	},
	"All": func(g *group.Group, in <-chan int) (all []int, err error) {
		for n, e := range group.All(g, in) {
			if err = e; err == nil {
				all = append(all, n)
			}
		}
		return all, err
	},
	"range and Wait": func(g *group.Group, in <-chan int) (all []int, err error) {
		for n := range in {
			all = append(all, n)
		}
		return all, g.Wait()
	},
}

var stageOptions = []*group.Stage{
	nil,
	{},
	{Workers: 1, Ordered: true},
	{Workers: 4},
	{Workers: 4, Buffer: -1},
	{Workers: 4, Ordered: true},
	{Workers: 4, Ordered: true, Buffer: 1},
	{Workers: 4, Ordered: true, Buffer: -1},
	{Workers: 3, Ordered: true, Gate: gate.Of(nothing{})},
}

// nothing is a limiter that lets everybody pass.
type nothing struct{}

func (nothing) Wait(context.Context) error { return nil }

// Every stage and every sink passes on everything once, in order where that is promised.
func TestStagesPassOnEverything(t *testing.T) {
	for name, stage := range plainStages {
		for sinkName, sink := range sinks {
			for _, s := range stageOptions {
				inBubble(t, func(t *testing.T) {
					g, ctx := group.WithContext(context.Background())
					got, err := sink(g, stage(g, group.From(g, upTo(200)), s))
					if err != nil {
						t.Errorf("%s, %s, %+v: %v", name, sinkName, s, err)
					}
					if unordered(name, s) {
						slices.Sort(got)
					}
					if !slices.Equal(got, slices.Collect(upTo(200))) {
						t.Errorf("%s, %s, %+v: got %v", name, sinkName, s, got)
					}
					if ctx.Err() != nil && sinkName != "range and Wait" {
						t.Errorf("%s, %s: the context ended with %v", name, sinkName, context.Cause(ctx))
					}
					checkWait(t, g, nil)
				})
			}
		}
	}
}

// How many items are in a stage that nobody reads from.
func TestStageHoldsAtMost(t *testing.T) {
	held := func(stage func(*group.Group, <-chan int)) (n int) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			g, _ := group.WithContext(ctx)
			in := make(chan int)
			stage(g, in)
			for open := true; open; {
				synctest.Wait()
				select {
				case in <- n:
					n++
				default:
					open = false
				}
			}
			cancel()
			checkWait(t, g, context.Canceled)
		})
		return n
	}
	mapper := func(s *group.Stage) func(*group.Group, <-chan int) {
		return func(g *group.Group, in <-chan int) { group.Map(g, in, double, s) }
	}
	flat := func(s *group.Stage) func(*group.Group, <-chan int) {
		return func(g *group.Group, in <-chan int) {
			group.FlatMap(g, in, func(_ context.Context, n int, send func(int) bool) error { send(n); return nil }, s)
		}
	}
	for _, test := range []struct {
		name  string
		want  int
		stage func(*group.Group, <-chan int)
	}{
		{"Map, nil", 1 + 64, mapper(nil)},
		{"Map, 3 workers", 3 + 64, mapper(&group.Stage{Workers: 3})},
		{"Map, 100 workers", 100 + 100, mapper(&group.Stage{Workers: 100})},
		{"Map, 3 workers, 5", 3 + 5, mapper(&group.Stage{Workers: 3, Buffer: 5})},
		{"Map, 3 workers, none", 3, mapper(&group.Stage{Workers: 3, Buffer: -1})},
		{"Map, ordered", 3 + 2*64, mapper(&group.Stage{Workers: 3, Ordered: true})},
		{"Map, ordered, 5", 3 + 2*5, mapper(&group.Stage{Workers: 3, Ordered: true, Buffer: 5})},
		{"Map, ordered, none", 3, mapper(&group.Stage{Workers: 3, Ordered: true, Buffer: -1})},
		{"FlatMap, 5", 3 + 5, flat(&group.Stage{Workers: 3, Buffer: 5})},
		{"FlatMap, ordered, none", 3, flat(&group.Stage{Workers: 3, Ordered: true, Buffer: -1})},
		{"Batch", 7, func(g *group.Group, in <-chan int) { group.Batch(g, in, 7, nil) }},
		{"Batch by time", 7, func(g *group.Group, in <-chan int) { group.Batch(g, in, 7, &group.BatchOptions{Wait: time.Second}) }},
		{"Batch at once", 7, func(g *group.Group, in <-chan int) { group.Batch(g, in, 7, &group.BatchOptions{Wait: -1}) }},
		{"Merge", 64 + 1, func(g *group.Group, in <-chan int) { group.Merge(g, in) }},
		{"Tee", 64 + 1, func(g *group.Group, in <-chan int) { group.Tee(g, in) }},
	} {
		if n := held(test.stage); n != test.want {
			t.Errorf("%s: held %d items, want %d", test.name, n, test.want)
		}
	}
}

// Ordered FlatMap: what waits for its turn is bounded for all items together, and nothing
// is mixed up.
func TestFlatMapInOrder(t *testing.T) {
	for _, buffer := range []int{-1, 1, 5, 0} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			goOn := make(chan struct{})
			var sent atomic.Int64
			out := group.FlatMap(g, group.From(g, upTo(20)), func(_ context.Context, n int, send func([2]int) bool) error {
				if n == 0 || n == 10 {
					<-goOn
				}
				time.Sleep(time.Duration(n*7%5) * ms)
				for i := range n {
					if !send([2]int{n, i}) {
						t.Error("send returned false")
					}
					sent.Add(1)
				}
				return nil
			}, &group.Stage{Workers: 4, Ordered: true, Buffer: buffer})
			time.Sleep(time.Second)
			want := map[int]int64{-1: 0, 1: 1, 5: 5, 0: 64}[buffer]
			if n := sent.Load(); n != want {
				t.Errorf("buffer %d: %d results wait for their turn, want %d", buffer, n, want)
			}
			goOn <- struct{}{}
			var got [][2]int
			for len(got) < 45 { // all of the first ten items
				got = append(got, <-out)
			}
			time.Sleep(time.Second)
			if n := sent.Load() - 45; n != want {
				t.Errorf("buffer %d: later %d results wait for their turn, want %d", buffer, n, want)
			}
			goOn <- struct{}{}
			rest, err := group.Collect(g, out)
			if err != nil {
				t.Error(err)
			}
			got = append(got, rest...)
			i := 0
			for n := range 20 {
				for j := range n {
					if i < len(got) && got[i] != [2]int{n, j} {
						t.Fatalf("buffer %d: result %d is %v, want %v", buffer, i, got[i], [2]int{n, j})
					}
					i++
				}
			}
			if len(got) != i {
				t.Errorf("buffer %d: %d results, want %d", buffer, len(got), i)
			}
		})
	}
}

// An item with many results does not take the memory of all of them.
func TestFlatMapInConstantMemory(t *testing.T) {
	const results = 1 << 16
	g, _ := group.WithContext(context.Background())
	out := group.FlatMap(g, counted(1), func(_ context.Context, _ int, send func(int) bool) error {
		for i := 0; i < results && send(i); i++ {
		}
		return nil
	}, &group.Stage{Workers: 2, Ordered: true})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := group.Reduce(g, out, 0, func(_ context.Context, n, _ int) (int, error) { return n + 1, nil })
	runtime.ReadMemStats(&after)
	if n != results || err != nil {
		t.Errorf("%d results and %v", n, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > results {
		t.Errorf("%d bytes were allocated for %d results", took, results)
	}
	checkWait(t, g, nil)
}

// An item whose turn has come does not pile up results behind those that somebody else is
// sending for it.
func TestFlatMapBoundWhileAnotherSends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		goOn := make(chan struct{})
		var sent atomic.Int64
		out := group.FlatMap(g, counted(2), func(_ context.Context, n int, send func(int) bool) error {
			if n == 0 {
				<-goOn
				send(0) // fills the output
				return nil
			}
			for i := 1; i < 100 && send(i); i++ {
				sent.Add(1)
			}
			return nil
		}, &group.Stage{Workers: 2, Ordered: true, Buffer: 1})
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		if n := sent.Load(); n != 1 {
			t.Errorf("%d results wait, want 1", n)
		}
		if got, err := group.Collect(g, out); !slices.Equal(got, slices.Collect(upTo(100))) || err != nil {
			t.Errorf("got %v and %v", got, err)
		}
	})
}

// All results of an item go out at once, also those that came before its turn.
func TestFlatMapSendsWhenItsTurnComes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		goOn := make(chan struct{}, 2)
		out := group.FlatMap(g, counted(2), func(_ context.Context, n int, send func(int) bool) error {
			if n == 1 {
				send(1)
			}
			<-goOn
			return nil
		}, &group.Stage{Workers: 2, Ordered: true})
		synctest.Wait()
		if len(out) != 0 {
			t.Error("a result came before its turn")
		}
		goOn <- struct{}{} // to one of the two
		goOn <- struct{}{}
		got, err := group.Collect(g, out)
		if !slices.Equal(got, []int{1}) || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		first, second := make(chan struct{}), make(chan struct{})
		out := group.FlatMap(g, counted(2), func(_ context.Context, n int, send func(int) bool) error {
			if n == 0 {
				<-first
				return nil
			}
			send(1)
			<-second
			return nil
		}, &group.Stage{Workers: 2, Ordered: true})
		synctest.Wait()
		close(first)
		synctest.Wait()
		if len(out) != 1 {
			t.Error("the result did not come when its turn had")
		}
		close(second)
		if _, err := group.Collect(g, out); err != nil {
			t.Error(err)
		}
	})
}

// A slow head does not keep others from running, as far as the look-ahead goes, and then
// no further.
func TestLookAhead(t *testing.T) {
	for _, test := range []struct{ buffer, want int }{{-1, 3}, {1, 4}, {10, 13}, {0, 67}} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			goOn := make(chan struct{})
			var started atomic.Int64
			out := group.Map(g, group.From(g, upTo(200)), func(_ context.Context, n int) (int, error) {
				started.Add(1)
				if n == 0 {
					<-goOn
				}
				return n, nil
			}, &group.Stage{Workers: 3, Ordered: true, Buffer: test.buffer})
			synctest.Wait()
			if n := int(started.Load()); n != test.want || len(out) != 0 {
				t.Errorf("buffer %d: %d started behind the first, %d came out, want %d and 0", test.buffer, n, len(out), test.want)
			}
			close(goOn)
			got, err := group.Collect(g, out)
			if !slices.Equal(got, slices.Collect(upTo(200))) || err != nil {
				t.Errorf("buffer %d: got %v, %v", test.buffer, got, err)
			}
		})
	}
}

// There are as many workers as asked for, all of whom can be at work.
func TestWorkers(t *testing.T) {
	for _, s := range []*group.Stage{nil, {}, {Workers: 5}, {Workers: 5, Ordered: true}, {Workers: 5, Ordered: true, Buffer: -1}} {
		want := 1
		if s != nil {
			want = max(s.Workers, 1)
		}
		for name, stage := range map[string]func(*group.Group, <-chan int, func()) error{
			"Map": func(g *group.Group, in <-chan int, f func()) error {
				_, err := group.Collect(g, group.Map(g, in, func(_ context.Context, n int) (int, error) { f(); return n, nil }, s))
				return err
			},
			"FlatMap": func(g *group.Group, in <-chan int, f func()) error {
				_, err := group.Collect(g, group.FlatMap(g, in, func(_ context.Context, n int, send func(int) bool) error { f(); return nil }, s))
				return err
			},
			"ForEach": func(g *group.Group, in <-chan int, f func()) error {
				return group.ForEach(g, in, func(context.Context, int) error { f(); return nil }, s)
			},
		} {
			inBubble(t, func(t *testing.T) {
				g, _ := group.WithContext(context.Background())
				var active, most atomic.Int64
				if err := stage(g, group.From(g, upTo(50)), func() {
					defer active.Add(-1)
					most.Store(max(most.Load(), active.Add(1)))
					time.Sleep(ms)
				}); err != nil {
					t.Error(err)
				}
				if n := int(most.Load()); n != want {
					t.Errorf("%s, %+v: %d at work, want %d", name, s, n, want)
				}
			})
		}
	}
}

// Errors travel with their items, those of the gate as well, and stop nothing.
func TestTryMap(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		g.SetRecover(true)
		fake := &fakeGate{enter: func(_ context.Context, cost int) error {
			if cost == 7 {
				return errTwo
			}
			return nil
		}}
		out := group.TryMap(g, group.From(g, upTo(10)), func(_ context.Context, n int) (string, error) {
			switch n {
			case 3:
				return "three", errOne
			case 6:
				panic("six")
			}
			return fmt.Sprint(n), nil
		}, &group.Stage{Gate: fake, Workers: 3, Ordered: true}, func(n int) int { return n + 1 })
		results, err := group.Collect(g, out)
		if err != nil || len(results) != 10 {
			t.Fatalf("got %v and %v", results, err)
		}
		for i, r := range results {
			wantValue, wantErr := fmt.Sprint(i), error(nil)
			switch i {
			case 3:
				wantValue, wantErr = "three", errOne
			case 6: // costs 7
				wantValue, wantErr = "", errTwo
			}
			if r.Item != i || r.Value != wantValue || r.Err != wantErr {
				t.Errorf("result %d is %+v", i, r)
			}
		}
		got := map[string]int{}
		for _, note := range fake.notes() {
			got[note]++
		}
		if want := map[string]int{"left": 8, "left: one": 1}; !maps.Equal(got, want) {
			t.Errorf("gate saw %v, want %v", got, want)
		}
		checkWait(t, g, nil)
	})
}

// A Merge of several channels has all of them, and ends with the last.
func TestMerge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, _ := group.WithContext(context.Background())
		never := make(chan int)
		ins := []<-chan int{counted(100), group.From(g, upTo(50)), never}
		out := group.Merge(g, ins...)
		ins[0], ins[1], ins[2] = nil, nil, nil
		seen := map[int]int{}
		for range 150 {
			seen[<-out]++
		}
		for i := range 100 {
			if want := 1 + max(0, min(1, 50-i)); seen[i] != want {
				t.Errorf("%d came %d times, want %d", i, seen[i], want)
			}
		}
		synctest.Wait()
		select {
		case v, ok := <-out:
			t.Errorf("received %d, %v", v, ok)
		default:
		}
		close(never)
		if got, err := group.Collect(g, out); len(got) != 0 || err != nil {
			t.Errorf("got %v and %v", got, err)
		}
		if got, err := group.Collect(g, group.Merge[int](g)); len(got) != 0 || err != nil {
			t.Errorf("nothing merged: got %v and %v", got, err)
		}
	})
}
