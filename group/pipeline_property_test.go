package group_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

// aLine is a random pipeline. Times are in milliseconds.
type aLine struct {
	Items  int // -1: without end
	Every  int // time between two items
	Source string
	Parts  []aPart
	Sink   string
	Leave  int // after how many values the sink is left; -1: never
	Cancel int // when the caller's context ends; -1: never
	Slow   int // what the sink takes for a value
}

// aPart is a stage, or several that belong together.
type aPart struct {
	Kind    string
	Workers int
	Ordered bool
	Buffer  int
	Gate    string
	Takes   int // f takes up to that
	Fail    int // item for which it fails; -1: none
	How     string
	Size    int // of batches
	Wait    int
}

func drawLine(t *rapid.T) (l aLine) {
	l.Items = rapid.SampledFrom([]int{-1, 0, 1, 2, 7, 30, 100}).Draw(t, "items")
	l.Every = rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "every")
	l.Source = rapid.SampledFrom([]string{"From", "From2", "Generate", "channel"}).Draw(t, "source")
	trouble := rapid.Bool().Draw(t, "trouble")
	for range rapid.IntRange(0, 4).Draw(t, "parts") {
		p := aPart{
			Kind:    rapid.SampledFrom([]string{"Map", "Map", "TryMap", "FilterMap", "FlatMap", "Batch", "Tee", "Merge"}).Draw(t, "kind"),
			Workers: rapid.IntRange(0, 5).Draw(t, "workers"),
			Ordered: rapid.Bool().Draw(t, "ordered"),
			Buffer:  rapid.SampledFrom([]int{-1, 0, 1, 2, 10}).Draw(t, "buffer"),
			Gate:    rapid.SampledFrom([]string{"", "", "", "burst", "window", "slots", "all"}).Draw(t, "gate"),
			Takes:   rapid.SampledFrom([]int{0, 0, 1, 10}).Draw(t, "takes"),
			Fail:    -1,
			Size:    rapid.IntRange(1, 5).Draw(t, "size"),
			Wait:    rapid.SampledFrom([]int{0, -1, 5}).Draw(t, "wait"),
		}
		if trouble && rapid.IntRange(0, 2).Draw(t, "fails") == 0 {
			p.Fail = rapid.IntRange(0, 40).Draw(t, "fail")
			p.How = rapid.SampledFrom([]string{"error", "panic", "exit"}).Draw(t, "how")
		}
		l.Parts = append(l.Parts, p)
	}
	l.Sink = rapid.SampledFrom([]string{"All", "Collect", "Reduce", "ForEach", "range"}).Draw(t, "sink")
	l.Slow = rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "slow")
	l.Leave, l.Cancel = -1, -1
	if l.Sink == "All" && rapid.Bool().Draw(t, "left") {
		l.Leave = rapid.IntRange(1, 20).Draw(t, "leave")
	}
	if trouble && rapid.IntRange(0, 2).Draw(t, "cancelled") == 0 {
		l.Cancel = rapid.IntRange(0, 300).Draw(t, "cancel")
	}
	if l.Items < 0 && l.Leave < 0 && l.Cancel < 0 {
		l.Cancel = 300
	}
	if l.Items < 0 {
		l.Every = 3 // or it is without end within an instant
	}
	return l
}

// lineBooks are what is known of a run. Whoever writes holds the lock that is the channel
// of capacity 1.
type lineBooks struct {
	began    time.Time
	failed   time.Duration // when the group's context ended; -1: not yet
	late     []string      // what started after it
	inFlight map[int]int
	most     map[int]int
	seen     map[[2]int]int // calls by part and item
	teed     []error        // what the sinks of the Tees' other outputs returned
}

// errExit stands for a call that ends some other way.
var errExit = errors.New("exit")

// play carries the pipeline out, in a bubble, and returns the first rule that it broke.
func (l aLine) play() error {
	var (
		parent, cancel = context.WithCancelCause(context.Background())
		cause          = errors.New("cancelled")
		g, ctx         = group.WithContext(parent)
		books          = make(chan *lineBooks, 1)
		gates          []gate.Gate
		sorted         = true // the order must be kept
	)
	defer cancel(nil)
	g.SetRecover(true)
	books <- &lineBooks{began: time.Now(), failed: -1, inFlight: map[int]int{}, most: map[int]int{}, seen: map[[2]int]int{}}
	edit := func(f func(*lineBooks)) {
		b := <-books
		f(b)
		books <- b
	}
	if l.Cancel >= 0 {
		timer := time.AfterFunc(time.Duration(l.Cancel)*ms, func() { cancel(cause) })
		defer timer.Stop()
	}

	// work is what the function of part i does for an item.
	work := func(i int, p aPart, n int) error {
		edit(func(b *lineBooks) {
			// Within one instant a worker may have looked just before.
			if b.failed >= 0 && b.failed < time.Since(b.began) {
				b.late = append(b.late, fmt.Sprintf("part %d started on %d at %v, after the failure at %v", i, n, time.Since(b.began), b.failed))
			}
			b.inFlight[i]++
			b.most[i] = max(b.most[i], b.inFlight[i])
			b.seen[[2]int{i, n}]++
		})
		time.Sleep(time.Duration(n*7%(p.Takes+1)) * ms)
		edit(func(b *lineBooks) { b.inFlight[i]-- })
		if p.Fail == n {
			switch p.How {
			case "error":
				return &partError{i, n}
			case "panic":
				panic(&partError{i, n})
			case "exit":
				return errExit // the caller's business
			}
		}
		return nil
	}
	stop := context.AfterFunc(ctx, func() {
		edit(func(b *lineBooks) { b.failed = time.Since(b.began) })
	})
	defer stop()

	in := l.source(g)
	for i, p := range l.Parts {
		s := &group.Stage{Workers: p.Workers, Ordered: p.Ordered, Buffer: p.Buffer}
		if p.Gate != "" {
			gt, members := gateOf(p.Gate)
			s.Gate = gt
			gates = append(append(gates, gt), members...)
		}
		f := func(_ context.Context, n int) (int, error) {
			err := work(i, p, n)
			if err == errExit {
				err = &partError{i, n}
			}
			return n, err
		}
		switch p.Kind {
		case "Map":
			in = group.Map(g, in, f, s)
		case "TryMap":
			in = group.Map(g, group.TryMap(g, in, f, s), func(_ context.Context, r group.Result[int, int]) (int, error) {
				return r.Item, r.Err
			}, nil)
		case "FilterMap":
			in = group.FilterMap(g, in, func(ctx context.Context, n int) (int, bool, error) {
				n, err := f(ctx, n)
				return n, true, err
			}, s)
		case "FlatMap":
			in = group.FlatMap(g, in, func(ctx context.Context, n int, send func(int) bool) error {
				n, err := f(ctx, n)
				if err == nil {
					send(n)
				}
				return err
			}, s)
		case "Batch":
			in = group.Flatten(g, group.Batch(g, in, p.Size, &group.BatchOptions{Wait: time.Duration(p.Wait) * ms}))
		case "Tee":
			a, b := group.Tee(g, in)
			in = a
			g.Go(func() error {
				err := group.ForEach(g, b, func(_ context.Context, n int) error {
					time.Sleep(time.Duration(n*7%(p.Takes+1)) * ms)
					return nil
				}, nil)
				edit(func(b *lineBooks) { b.teed = append(b.teed, err) })
				return err
			})
		case "Merge":
			in = group.Merge(g, in, group.From(g, upTo(0)))
		}
		if unordered(p.Kind, s) {
			sorted = false
		}
	}
	got, err := l.sink(g, in)
	b := <-books
	returned := time.Since(b.began)
	for i, n := range b.inFlight {
		if n != 0 {
			return fmt.Errorf("part %d: %d in flight at the end", i, n)
		}
	}
	books <- b
	left := l.Leave >= 0 && len(got) == l.Leave
	waited := g.Wait()
	b = <-books
	teed := b.teed // all of them: Wait waits for jobs
	books <- b
	switch {
	case left:
		err = waited // what had failed before
	case waited == err:
	case err == nil && waited == cause && slices.Contains(teed, waited) && returned <= time.Duration(l.Cancel)*ms:
		// The sink's nil is about its own input: below, all of it must be there. Wait's error is
		// that of a job, which still read a Tee's other output when the cancel came.
	default:
		return fmt.Errorf("the sink returned %v at %v, Wait %v, the other sinks %v", err, returned, waited, teed)
	}
	time.Sleep(2 * time.Minute) // nothing may happen any more, but the foreign source gives up
	synctest.Wait()
	b = <-books
	if len(b.late) > 0 {
		return errors.New(b.late[0])
	}
	for i, p := range l.Parts {
		if b.most[i] > max(p.Workers, 1) || p.Gate == "slots" && b.most[i] > 4 {
			return fmt.Errorf("part %d: %d in flight", i, b.most[i])
		}
	}
	for at, n := range b.seen {
		if n > 1 {
			return fmt.Errorf("part %d was called for item %d %d times", at[0], at[1], n)
		}
	}

	var mine *partError
	switch {
	case err == nil && left:
	case err == nil:
		for i, p := range l.Parts {
			if p.Fail >= 0 && b.seen[[2]int{i, p.Fail}] > 0 {
				return fmt.Errorf("no error, although part %d failed", i)
			}
		}
		if len(got) != l.Items {
			return fmt.Errorf("no error with %d of %d items", len(got), l.Items)
		}
	case errors.As(err, &mine):
		if p := l.Parts[mine.part]; p.Fail != mine.n {
			return fmt.Errorf("error %v, which was never returned", err)
		}
	case err == cause:
		if l.Cancel < 0 {
			return errors.New("the cause of a cancel that never was")
		}
	default:
		return fmt.Errorf("unexpected error: %v", err)
	}
	// Of a failure and a cancel at one instant the group may have the one and its context the other.
	both := mine != nil && context.Cause(ctx) == cause && b.failed == time.Duration(l.Cancel)*ms
	if waited != nil && context.Cause(ctx) != waited && !left && !both {
		return fmt.Errorf("the error is %v, the context's cause %v", waited, context.Cause(ctx))
	}
	if sorted && !slices.Equal(got, slices.Collect(upTo(len(got)))) {
		return fmt.Errorf("out of order: %v", got)
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		return fmt.Errorf("doubled: %v", got)
	}
	for _, gt := range gates {
		s, _ := gate.StatsOf(gt)
		if _, ok := gt.(*gate.Concurrency); ok && s.InUse != 0 || s.Waiting != 0 {
			return fmt.Errorf("%T afterwards: %+v", gt, s)
		}
	}
	return nil
}

type partError struct{ part, n int }

func (e *partError) Error() string { return fmt.Sprintf("part %d failed for %d", e.part, e.n) }

func (l aLine) source(g *group.Group) <-chan int {
	numbers := func(yield func(int) bool) {
		for i := 0; i != l.Items; i++ {
			if l.Every > 0 {
				time.Sleep(time.Duration(l.Every) * ms)
			}
			if !yield(i) {
				return
			}
		}
	}
	switch l.Source {
	case "From":
		return group.From(g, numbers)
	case "From2":
		return group.From2(g, func(yield func(int, error) bool) {
			numbers(func(n int) bool { return yield(n, nil) })
		})
	case "Generate":
		return group.Generate(g, func(_ context.Context, send func(int) bool) error {
			numbers(send)
			return nil
		})
	}
	// Somebody else's, who gives up a minute after nobody takes anything any more.
	in := make(chan int)
	go func() {
		defer close(in)
		numbers(func(n int) bool {
			select {
			case in <- n:
				return true
			case <-time.After(time.Minute):
				return false
			}
		})
	}()
	return group.Merge(g, in) // a plain range over in itself would know of no end
}

func (l aLine) sink(g *group.Group, in <-chan int) (got []int, err error) {
	note := func(n int) {
		time.Sleep(time.Duration(l.Slow) * ms)
		got = append(got, n)
	}
	switch l.Sink {
	case "All":
		for n, e := range group.All(g, in) {
			if err = e; err == nil {
				note(n)
			}
			if len(got) == l.Leave {
				break
			}
		}
	case "Collect":
		got, err = group.Collect(g, in)
	case "Reduce":
		got, err = group.Reduce(g, in, nil, func(_ context.Context, all []int, n int) ([]int, error) {
			time.Sleep(time.Duration(l.Slow) * ms)
			return append(all, n), nil
		})
	case "ForEach":
		err = group.ForEach(g, in, func(_ context.Context, n int) error { note(n); return nil }, nil)
	case "range":
		for n := range in {
			note(n)
		}
		err = g.Wait()
	}
	return got, err
}

func TestRandomPipelines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		line, broken := drawLine(rt), error(nil)
		synctest.Test(t, func(*testing.T) { broken = line.play() })
		if broken != nil {
			rt.Fatalf("%v\nin %+v", broken, line)
		}
	})
}
