package group_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// Read names, fetch their pages through a gate, eight at once and in order, and store them
// four at a time.
func Example_pipeline() {
	g, _ := group.WithContext(context.Background())

	names := group.From(g, slices.Values(strings.Fields("anchor barrel click detent escape fusee gong")))
	pages := group.Map(g, names, fetchPage, &group.Stage{
		Workers: 8,
		Ordered: true,
		Gate:    gate.NewRate(pace.PerSecond(1000), nil),
	})
	batches := group.Batch(g, pages, 4, &group.BatchOptions{Wait: time.Second})
	err := group.ForEach(g, batches, func(_ context.Context, batch []string) error {
		fmt.Println("store", batch)
		return nil
	}, nil)

	fmt.Println(err)
	// Output:
	// store [Anchor Barrel Click Detent]
	// store [Escape Fusee Gong]
	// <nil>
}

// fetchPage stands for a call of a remote API.
func fetchPage(ctx context.Context, name string) (string, error) {
	return strings.ToUpper(name[:1]) + name[1:], ctx.Err()
}

func square(_ context.Context, n int) (int, error) { return n * n, nil }

// Graceful shutdown. admit ends when the program is to stop; nothing begins after that. work ends only
// if draining takes too long; until then, what is under way goes on.
func Example_shutdown() {
	errStop := errors.New("shutting down")
	admit, stop := context.WithCancelCause(context.Background()) // in a program: signal.NotifyContext
	work, abort := context.WithCancel(context.Background())
	defer abort()
	context.AfterFunc(admit, func() { time.AfterFunc(30*time.Second, abort) })

	g, _ := group.WithContext(work)
	messages := group.Generate(g, func(_ context.Context, send func(int) bool) error {
		for i := 1; admit.Err() == nil && send(i); i++ {
		}
		return nil // no error: the pipeline drains
	})
	api := gate.NewRate(pace.PerSecond(1000), nil)
	var begun, done, returned atomic.Int32
	err := group.ForEach(g, messages, func(ctx context.Context, _ int) error {
		err := gate.Do(admit, api, 1, func(context.Context) error {
			if begun.Add(1) == 20 {
				stop(errStop) // the signal comes
			}
			select { // a call, with the context of the work
			case <-time.After(5 * time.Millisecond):
				done.Add(1)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if errors.Is(err, errStop) {
			returned.Add(1) // not begun: give it back to the queue
			return nil
		}
		return err
	}, &group.Stage{Workers: 8})

	fmt.Println("error:", err)
	fmt.Println("all that began was done:", begun.Load() >= 20 && begun.Load() == done.Load())
	fmt.Println("some were given back:", returned.Load() > 0)
	// Output:
	// error: <nil>
	// all that began was done: true
	// some were given back: true
}

func ExampleFrom() {
	var g group.Group
	fmt.Println(group.Collect(&g, group.From(&g, slices.Values([]int{1, 2, 3}))))
	// Output: [1 2 3] <nil>
}

// What comes with errors, such as the rows of a query or the lines of a file.
func ExampleFrom2() {
	rows := func(yield func(int, error) bool) {
		for i := range 3 {
			if !yield(i, nil) {
				return
			}
		}
		yield(0, errors.New("connection lost"))
	}
	g, _ := group.WithContext(context.Background())
	_, err := group.Collect(g, group.From2(g, rows))
	fmt.Println(err)
	// Output: connection lost
}

// All pages of a listing, one after another, as long as the reader wants more.
func ExampleGenerate() {
	list := func(ctx context.Context, page int) (names []string, more bool, err error) {
		return []string{fmt.Sprint("file ", 2*page), fmt.Sprint("file ", 2*page+1)}, page < 2, ctx.Err()
	}
	g, _ := group.WithContext(context.Background())
	files := group.Generate(g, func(ctx context.Context, send func(string) bool) error {
		for page, more := 0, true; more; page++ {
			var names []string
			var err error
			if names, more, err = list(ctx, page); err != nil {
				return err
			}
			for _, name := range names {
				if !send(name) {
					return nil
				}
			}
		}
		return nil
	})
	all, err := group.Collect(g, files)
	fmt.Println(len(all), "files, the last is", all[len(all)-1], err)
	// Output: 6 files, the last is file 5 <nil>
}

func ExampleMap() {
	g, _ := group.WithContext(context.Background())
	numbers := group.From(g, slices.Values([]string{"1", "2", "3", "four", "5"}))
	parsed := group.Map(g, numbers, func(_ context.Context, s string) (int, error) {
		return strconv.Atoi(s)
	}, &group.Stage{Workers: 4})
	_, err := group.Collect(g, parsed)
	fmt.Println(err)
	// Output: strconv.Atoi: parsing "four": invalid syntax
}

// Under a retry policy the attempts enter the gate, and the stage has none.
func ExampleMap_retry() {
	policy := &retry.Policy{Gate: gate.NewRate(pace.PerSecond(1000), nil), Backoff: retry.Constant(time.Millisecond)}
	failed := false
	fetch := func(_ context.Context, n int) (string, error) {
		if n == 2 && !failed {
			failed = true
			return "", errors.New("connection reset")
		}
		return fmt.Sprint("page ", n), nil
	}
	g, _ := group.WithContext(context.Background())
	pages := group.Map(g, group.From(g, slices.Values([]int{1, 2, 3})), retry.Wrap(policy, fetch), nil)
	fmt.Println(group.Collect(g, pages))
	// Output: [page 1 page 2 page 3] <nil>
}

// A page that is not there does not stop the others.
func ExampleTryMap() {
	errNotFound := errors.New("404")
	g, _ := group.WithContext(context.Background())
	results := group.TryMap(g, group.From(g, slices.Values([]int{1, 2, 3})), func(_ context.Context, n int) (string, error) {
		if n == 2 {
			return "", errNotFound
		}
		return fmt.Sprint("page ", n), nil
	}, &group.Stage{Workers: 3, Ordered: true})
	err := group.ForEach(g, results, func(_ context.Context, r group.Result[int, string]) error {
		if errors.Is(r.Err, errNotFound) {
			fmt.Println(r.Item, "is not there")
			return nil
		}
		fmt.Println(r.Item, "is", r.Value)
		return r.Err // anything else stops all
	}, nil)
	fmt.Println(err)
	// Output:
	// 1 is page 1
	// 2 is not there
	// 3 is page 3
	// <nil>
}

func ExampleFilterMap() {
	g, _ := group.WithContext(context.Background())
	even := group.FilterMap(g, group.From(g, slices.Values([]int{1, 2, 3, 4})), func(_ context.Context, n int) (string, bool, error) {
		return fmt.Sprint("number ", n), n%2 == 0, nil
	}, nil)
	fmt.Println(group.Collect(g, even))
	// Output: [number 2 number 4] <nil>
}

func ExampleFlatMap() {
	g, _ := group.WithContext(context.Background())
	words := group.FlatMap(g, group.From(g, slices.Values([]string{"one two", "three"})), func(_ context.Context, line string, send func(string) bool) error {
		for word := range strings.FieldsSeq(line) {
			if !send(word) {
				break
			}
		}
		return nil
	}, &group.Stage{Workers: 2, Ordered: true})
	all, err := group.Collect(g, words)
	fmt.Printf("%q %v\n", all, err)
	// Output: ["one" "two" "three"] <nil>
}

func ExampleForEach() {
	g, _ := group.WithContext(context.Background())
	err := group.ForEach(g, group.From(g, slices.Values([]string{"a", "b"})), func(_ context.Context, s string) error {
		fmt.Println(s)
		return nil
	}, nil)
	fmt.Println(err)
	// Output:
	// a
	// b
	// <nil>
}

func ExampleBatch() {
	g, _ := group.WithContext(context.Background())
	batches := group.Batch(g, group.From(g, slices.Values([]int{1, 2, 3, 4, 5})), 2, nil)
	fmt.Println(group.Collect(g, batches))
	// Output: [[1 2] [3 4] [5]] <nil>
}

func ExampleFlatten() {
	g, _ := group.WithContext(context.Background())
	lists := group.From(g, slices.Values([][]int{{1, 2}, {}, {3}}))
	fmt.Println(group.Collect(g, group.Flatten(g, lists)))
	// Output: [1 2 3] <nil>
}

// Any channel can be an input, not only that of a stage.
func ExampleMerge() {
	theirs := make(chan int, 2)
	theirs <- 10
	theirs <- 20
	close(theirs)
	g, _ := group.WithContext(context.Background())
	all, err := group.Collect(g, group.Merge(g, theirs, group.From(g, slices.Values([]int{1, 2}))))
	fmt.Println(slices.Sorted(slices.Values(all)), err)
	// Output: [1 2 10 20] <nil>
}

// Both of a Tee must be read at the same time, here by a job and by the caller.
func ExampleTee() {
	g, _ := group.WithContext(context.Background())
	a, b := group.Tee(g, group.From(g, slices.Values([]int{1, 2, 3})))
	var sum int
	g.Go(func() (err error) {
		sum, err = group.Reduce(g, a, 0, func(_ context.Context, sum, n int) (int, error) { return sum + n, nil })
		return err
	})
	all, err := group.Collect(g, b)
	fmt.Println(all, err)
	fmt.Println(g.Wait(), sum)
	// Output:
	// [1 2 3] <nil>
	// <nil> 6
}

func ExampleReduce() {
	g, _ := group.WithContext(context.Background())
	words := group.From(g, slices.Values(strings.Fields("tick tock tick")))
	count, err := group.Reduce(g, words, map[string]int{}, func(_ context.Context, count map[string]int, word string) (map[string]int, error) {
		count[word]++
		return count, nil
	})
	for _, word := range slices.Sorted(maps.Keys(count)) {
		fmt.Println(word, count[word])
	}
	fmt.Println(err)
	// Output:
	// tick 2
	// tock 1
	// <nil>
}

// Many workers sum up batches, and one goroutine their sums.
func ExampleReduce_partial() {
	g, _ := group.WithContext(context.Background())
	batches := group.Batch(g, group.From(g, upTo(10_000)), 100, nil)
	sums := group.Map(g, batches, func(_ context.Context, all []int) (int, error) {
		sum := 0
		for _, n := range all {
			sum += n
		}
		return sum, nil
	}, &group.Stage{Workers: 8})
	fmt.Println(group.Reduce(g, sums, 0, func(_ context.Context, sum, n int) (int, error) { return sum + n, nil }))
	// Output: 49995000 <nil>
}

func ExampleCollect() {
	var g group.Group
	fmt.Println(group.Collect(&g, group.Map(&g, group.From(&g, slices.Values([]int{1, 2, 3})), square, nil)))
	// Output: [1 4 9] <nil>
}

// Leaving the loop ends the source, which has no end of its own.
func ExampleAll() {
	g, _ := group.WithContext(context.Background())
	numbers := group.From(g, func(yield func(int) bool) {
		defer fmt.Println("the source has ended")
		for i := 1; yield(i); i++ {
		}
	})
	for n, err := range group.All(g, group.Map(g, numbers, square, nil)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if n > 10 {
			break
		}
		fmt.Println(n)
	}
	fmt.Println("here")
	// Output:
	// 1
	// 4
	// 9
	// the source has ended
	// here
}

// To wait for the group is to leave the loop as well.
func ExampleAll_wait() {
	g, _ := group.WithContext(context.Background())
	numbers := group.From(g, func(yield func(int) bool) {
		for i := 1; yield(i); i++ {
		}
	})
	find := func(limit int) (int, error) {
		for n, err := range group.All(g, group.Map(g, numbers, square, nil)) {
			if err != nil {
				return 0, err
			}
			if n > limit {
				return n, g.Wait()
			}
		}
		return 0, nil
	}
	fmt.Println(find(1000))
	// Output: 1024 <nil>
}

// Ask three mirrors and take the first answer.
func ExampleFirst() {
	g, _ := group.WithContext(context.Background())
	mirrors := group.From(g, slices.Values([]string{"north", "south", "west"}))
	answers := group.Map(g, mirrors, func(ctx context.Context, mirror string) (string, error) {
		if mirror != "south" {
			<-ctx.Done() // no answer; the stop ends the wait
			return "", ctx.Err()
		}
		return "hello from " + mirror, nil
	}, &group.Stage{Workers: 3})
	fmt.Println(group.First(g, answers))
	fmt.Println(g.Wait())
	// Output:
	// hello from south true <nil>
	// <nil>
}

// Files of different sizes, of which no more than 100 MB are in memory at once.
func ExampleCost() {
	type file struct {
		name string
		mb   int
	}
	memory := gate.NewConcurrency(100)
	g, _ := group.WithContext(context.Background())
	files := group.From(g, slices.Values([]file{{"a", 60}, {"b", 70}, {"c", 30}}))
	err := group.ForEach(g, files, func(context.Context, file) error { return nil }, &group.Stage{
		Workers: 3,
		Gate:    memory,
	}, func(f file) int { return f.mb })
	fmt.Println(err, memory.Stats().Granted)
	// Output: <nil> 3
}

// Where does the pipeline spend its time? In a stage with all workers in flight or at the gate. It
// holds up the stages before it, which are blocked, and those behind it, which are idle.
func ExampleMeter() {
	var fetching, parsing group.Meter
	g, _ := group.WithContext(context.Background())
	fetched := group.Map(g, group.From(g, slices.Values([]int{1, 2, 3})), square, &group.Stage{Workers: 2, Meter: &fetching})
	parsed := group.FilterMap(g, fetched, func(_ context.Context, n int) (int, bool, error) {
		return n, n > 1, nil
	}, &group.Stage{Meter: &parsing})
	if _, err := group.Collect(g, parsed); err != nil {
		fmt.Println(err)
	}
	fmt.Println("fetched:", fetching.Stats().In, "in,", fetching.Stats().Out, "out")
	fmt.Println("parsed: ", parsing.Stats().In, "in,", parsing.Stats().Out, "out")
	// Output:
	// fetched: 3 in, 3 out
	// parsed:  3 in, 2 out
}

func ExampleMeter_Stats() {
	var m group.Meter
	g, _ := group.WithContext(context.Background())
	err := group.ForEach(g, group.From(g, slices.Values([]int{1, 2, 3})), func(context.Context, int) error { return nil }, &group.Stage{Meter: &m})
	fmt.Println(m.Stats().In, err)
	// Output: 3 <nil>
}

// A parser that panics on bad input does not take the program down.
func ExampleGroup_SetRecover() {
	g, _ := group.WithContext(context.Background())
	g.SetRecover(true)
	last := group.TryMap(g, group.From(g, slices.Values([]string{"abc", "", "xyz"})), func(_ context.Context, s string) (string, error) {
		return s[len(s)-1:], nil
	}, nil)
	err := group.ForEach(g, last, func(_ context.Context, r group.Result[string, string]) error {
		var p *group.PanicError
		if errors.As(r.Err, &p) {
			fmt.Println("bad input:", p.Value)
			return nil
		}
		fmt.Println(r.Value)
		return r.Err
	}, nil)
	fmt.Println(err)
	// Output:
	// c
	// bad input: runtime error: slice bounds out of range [-1:]
	// z
	// <nil>
}

func ExamplePanicError() {
	var g group.Group
	g.SetRecover(true)
	g.Go(func() error { panic(errors.New("a cog is missing")) })
	var p *group.PanicError
	fmt.Println(errors.As(g.Wait(), &p), p.Unwrap())
	// Output: true a cog is missing
}
