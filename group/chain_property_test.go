package group_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
)

// chainRun is a run of a chain.
type chainRun struct {
	aChain
	b             *bubble.B
	g             *group.Group
	limits, gates []gate.Gate

	mu       sync.Mutex    // guards what follows. No goroutine blocks under it
	over     bool          // the group's context has ended, or Wait has returned,
	overAt   time.Duration // at that instant
	inFlight map[int]int   // by call site
	used     []int         // tokens in flight, by limit
	granted  [][]aGrant    // by limit
	broken   error         // the first rule that was broken
}

type aGrant struct {
	at   time.Duration
	cost int
}

func (r *chainRun) breaks(format string, args ...any) {
	if r.broken == nil {
		r.broken = fmt.Errorf(format, args...)
	}
}

func (r *chainRun) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over, r.overAt = true, r.b.Now()
	}
}

// call is what f of a link does for a value, at one of its call sites.
func (r *chainRun) call(i, site int, l aLink, v int) error {
	site += 2 * i
	r.mu.Lock()
	now := r.b.Now()
	// Within one instant a worker may have looked just before.
	if r.over && now > r.overAt {
		r.breaks("link %d was called for %d at %v, all was over at %v", i, v, now, r.overAt)
	}
	if r.inFlight[site]++; r.inFlight[site] > max(l.Workers, 1) {
		r.breaks("link %d: %d calls at once", i, r.inFlight[site])
	}
	r.use(l, v, now, 1)
	r.mu.Unlock()

	pause(r.b, v%(l.Takes+1))

	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight[site]--
	r.use(l, v, now, -1)
	if l.fails(v) && site%2 == 0 {
		return linkError{i, v}
	}
	return nil
}

// use notes that a call begins, or ends where sign is -1.
func (r *chainRun) use(l aLink, v int, now time.Duration, sign int) {
	if l.Gate < 0 {
		return
	}
	for _, i := range r.Gates[l.Gate] {
		r.used[i] += sign * l.cost(v)
		if n := r.Limits[i].Slots; n > 0 && r.used[i] > n {
			r.breaks("%d of %d slots in use", r.used[i], n)
		}
		if sign > 0 {
			r.granted[i] = append(r.granted[i], aGrant{now, l.cost(v)})
		}
	}
}

func (r *chainRun) link(in <-chan int, i int, l aLink) <-chan int {
	g := r.g
	s, cost := l.stage(r.b, r.gates)
	f := func(_ context.Context, v int) (int, error) { return l.next(v), r.call(i, 0, l, v) }
	same := func(_ context.Context, v int) (int, error) { return v, r.call(i, 1, l, v) }
	switch l.Kind {
	case "Map":
		return group.Map(g, in, f, s, cost)
	case "TryMap":
		return group.FilterMap(g, group.TryMap(g, in, f, s, cost), func(_ context.Context, r group.Result[int, int]) (int, bool, error) {
			return r.Value, r.Err == nil, nil
		}, nil)
	case "FilterMap":
		return group.FilterMap(g, in, func(_ context.Context, v int) (int, bool, error) { return v, l.keeps(v), r.call(i, 0, l, v) }, s, cost)
	case "FlatMap":
		return group.FlatMap(g, in, func(_ context.Context, v int, send func(int) bool) error {
			err := r.call(i, 0, l, v)
			for j := 0; err == nil && j < l.results(v) && send(l.result(v, j)); j++ {
				if j%7 == 1 {
					pause(r.b, v%(l.Takes+1))
				}
			}
			return err
		}, s, cost)
	case "Batch":
		o := &group.BatchOptions{Wait: time.Duration(l.Wait) * ms, Clock: r.b.Clock()}
		return group.Flatten(g, group.Batch(g, in, l.Size, o))
	case "Merge":
		return group.Merge(g, in, group.From(g, upTo(l.Size)))
	case "side":
		a, b := group.Tee(g, in)
		g.Go(func() error {
			return group.ForEach(g, b, func(_ context.Context, v int) error { return r.call(i, 0, l, v) }, s, cost)
		})
		return a
	case "diamond":
		a, b := group.Tee(g, in)
		return group.Merge(g, group.Map(g, a, f, s, cost), group.Map(g, b, same, s, cost))
	}
	panic(l.Kind)
}

func (r *chainRun) sink(in <-chan int) (got []int, err error) {
	g := r.g
	switch r.Sink {
	case "Collect", "Reduce", "range", "All":
		name := r.Sink
		if name == "range" {
			name = "range and Wait"
		}
		return sinks[name](g, in)
	case "ForEach":
		s, cost := r.Last.stage(r.b, r.gates)
		err = group.ForEach(g, in, func(_ context.Context, v int) error {
			err := r.call(len(r.Links), 0, r.Last, v)
			if err == nil {
				r.mu.Lock()
				got = append(got, v)
				r.mu.Unlock()
			}
			return err
		}, s, cost)
		return got, err
	case "First":
		v, ok, err := group.First(g, in)
		if ok {
			got = append(got, v)
		}
		return got, err
	case "pull":
		next, stop := iter.Pull2(group.All(g, in))
		defer stop()
		for len(got) < r.Leave {
			v, err, ok := next()
			if !ok || err != nil {
				return got, err
			}
			got = append(got, v)
		}
		return got, nil
	}
	for v, err := range group.All(g, in) {
		if err != nil {
			return got, err
		}
		if got = append(got, v); len(got) == r.Leave {
			if r.Sink == "Wait" {
				return got, g.Wait()
			}
			break
		}
	}
	return got, nil
}

// errCancelled is the cause with which the caller's context ends.
var errCancelled = errors.New("cancelled")

// play carries the chain out, in a bubble, and returns the first rule that it broke.
func (c aChain) play(b *bubble.B) error {
	parent, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	g, ctx := group.WithContext(parent)
	r := &chainRun{aChain: c, b: b, g: g, inFlight: map[int]int{}, used: make([]int, len(c.Limits)), granted: make([][]aGrant, len(c.Limits))}
	r.limits, r.gates = c.gates(b)
	stop := context.AfterFunc(ctx, r.end)
	defer stop()
	if c.Cancel >= 0 {
		go func() {
			b.Sleep(time.Duration(c.Cancel) * ms)
			cancel(errCancelled)
		}()
	}
	var got []int
	var err, waited error
	if !finishes(b, func() { cancel(nil) }, func() {
		in := group.From(g, func(yield func(int) bool) {
			for i := 0; i < c.Items && yield(i); i++ {
				pause(b, c.Every)
			}
		})
		for i, l := range c.Links {
			in = r.link(in, i, l)
		}
		got, err = r.sink(in)
		waited = g.Wait()
		r.end()
		for site, n := range r.inFlight {
			if n != 0 {
				r.breaks("link %d: %d in flight at the end", site/2, n)
			}
		}
	}) {
		return errors.New("stuck")
	}
	if err != nil && err != waited {
		return fmt.Errorf("the sink returned %v, Wait %v", err, waited)
	}
	return r.check(got, err, waited)
}

// check compares what the sink got and returned, and what Wait returned, with the model.
func (r *chainRun) check(got []int, err, waited error) error {
	if r.broken != nil {
		return r.broken
	}
	left := r.Leave > 0 && len(got) == r.Leave && err == nil
	side := slices.ContainsFunc(r.Links, func(l aLink) bool { return l.Kind == "side" })
	want, errs, sorted := r.model()
	var failed linkError
	switch {
	case waited == nil && !left && len(errs) > 0:
		return errors.New("no error, although there are values that fail")
	case err == nil && !left && len(got) != len(want):
		return fmt.Errorf("no error with %d results, want %d", len(got), len(want))
	case err == nil && !left && !side && waited != nil:
		return fmt.Errorf("the sink returned no error, Wait %v", waited)
	case waited == nil:
	case errors.As(waited, &failed):
		if !errs[failed] {
			return fmt.Errorf("error %v, which was never returned", waited)
		}
	case waited != errCancelled || r.Cancel < 0:
		return fmt.Errorf("unexpected error: %v", waited)
	}
	if sorted {
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			return fmt.Errorf("got %v, want %v", got, want)
		}
	} else {
		counts := map[int]int{}
		for _, v := range want {
			counts[v]++
		}
		for _, v := range got {
			if counts[v]--; counts[v] < 0 {
				return fmt.Errorf("%d came too often: got %v, want %v", v, got, want)
			}
		}
	}
	for i, l := range r.Limits {
		s, _ := gate.StatsOf(r.limits[i])
		if s.Waiting != 0 || l.Slots > 0 && s.InUse != 0 {
			return fmt.Errorf("%T afterwards: %+v", r.limits[i], s)
		}
		if err := l.check(r.granted[i]); err != nil {
			return err
		}
	}
	return nil
}

// check looks for a span in which a Rate let too many go.
func (l aLimit) check(grants []aGrant) error {
	if l.Slots > 0 {
		return nil // was checked call by call
	}
	for i := range grants {
		n := 0
		for _, g := range grants[i:] {
			n += g.cost
			span := g.at - grants[i].at
			if most := l.Burst + int(span/(time.Duration(l.Interval)*ms)); n > most {
				return fmt.Errorf("%d tokens of %+v within %v, at most %d are allowed", n, l, span, most)
			}
		}
	}
	return nil
}

// Whatever the stages, and whatever gates they share: the pipeline ends, with the right results
// or the right error, no limit is passed, nothing is called after the end, and no goroutine
// is left.
func TestRandomChains(t *testing.T) {
	for range 5 { // of as many as rapid makes of it
		rapid.Check(t, func(rt *rapid.T) {
			chain, broken := drawChain(rt), error(nil)
			run := bubble.Real
			if chain.Mock {
				run = bubble.Mock
			}
			run(t, func(b *bubble.B) { broken = chain.play(b) })
			if broken != nil {
				rt.Fatalf("%v\nin %+v", broken, chain)
			}
		})
	}
}
