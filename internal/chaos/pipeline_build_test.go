package chaos_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

// stage returns the Stage of a node.
func (p *pipeline) stage(n *node) *group.Stage {
	s := &group.Stage{Workers: n.Workers, Ordered: n.Ordered, Buffer: n.Buffer}
	if n.Meter {
		s.Meter = &group.Meter{}
		p.mu.Lock()
		p.stages = append(p.stages, stageCount{Meter: s.Meter, node: *n})
		p.mu.Unlock()
	}
	if n.gated() {
		s.Gate = p.gates[n.Gate].Gate
	}
	return s
}

// costOf returns the Cost of a node's items, or nil.
func costOf[A any](p *pipeline, n *node, value func(A) int) group.Cost[A] {
	if !n.gated() || n.Cost == 0 && n.Fail != "over" {
		return nil
	}
	calls, mu := 0, sync.Mutex{}
	return func(a A) int {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if n.Fail == "over" && calls == n.FailAt+1 {
			if n.Kind != "trymap" {
				p.mu.Lock()
				p.failures = append(p.failures, errOver)
				p.mu.Unlock()
			}
			return p.gates[n.Gate].capacity + 1
		}
		return p.cost(n, value(a))
	}
}

// gated reports whether the stage of the node enters a gate.
func (n *node) gated() bool { return n.Gate >= 0 && n.Kind != "flatmapin" }

var errOver = errors.New("stands for a *gate.CapacityError")

func same(x int) int { return x }

// source makes the channel of a node without input.
func (p *pipeline) source(n *node, id int) <-chan int {
	values := func(yield func(int, error) bool) {
		for i := range n.Items {
			time.Sleep(n.Delay)
			if (n.Kind == "from2" || n.Kind == "generate") && n.Fail == "error" && i == n.FailAt {
				yield(0, p.fail(n, i, false))
				return
			}
			if !yield(id*100+i, nil) {
				return
			}
		}
	}
	switch n.Kind {
	case "from2":
		return group.From2(p.g, iter.Seq2[int, error](values))
	case "generate":
		return group.Generate(p.g, func(ctx context.Context, send func(int) bool) error {
			for v, err := range values {
				if err != nil {
					return err
				}
				if !send(v) {
					if p.ctx.Err() == nil && !p.Zero {
						p.add("send of Generate: false, and the context has not ended")
					}
					return nil
				}
			}
			return nil
		})
	case "channel":
		if !p.Zero {
			c := make(chan int)
			go func() {
				defer close(c)
				for v := range values {
					select {
					case c <- v:
					case <-p.ctx.Done():
						return
					}
				}
			}()
			return c
		}
	}
	return group.From(p.g, func(yield func(int) bool) {
		values(func(v int, _ error) bool { return yield(v) })
	})
}

// build makes the channels of a node.
func (p *pipeline) build(n *node, id int) []<-chan int {
	if n.In == nil {
		return []<-chan int{p.source(n, id)}
	}
	in, work := p.chans[n.In[0]], p.worker(n, false)
	next := func(ctx context.Context, x int) (int, error) { return x*16 + n.K, work(ctx, x) }
	switch n.Kind {
	case "map":
		return []<-chan int{group.Map(p.g, in, next, p.stage(n), costOf(p, n, same))}
	case "trymap":
		results := group.TryMap(p.g, in, next, p.stage(n), costOf(p, n, same))
		return []<-chan int{group.FilterMap(p.g, results, func(ctx context.Context, r group.Result[int, int]) (int, bool, error) {
			if r.Err != nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.dropped[[2]int{id, r.Item}]++
				return 0, false, nil
			}
			return r.Value, true, nil
		}, nil)}
	case "filter":
		return []<-chan int{group.FilterMap(p.g, in, func(ctx context.Context, x int) (int, bool, error) {
			return x, hash(x, n.K)%3 > 0, work(ctx, x)
		}, p.stage(n), costOf(p, n, same))}
	case "flatmap", "flatmapin":
		return []<-chan int{group.FlatMap(p.g, in, func(ctx context.Context, x int, send func(int) bool) error {
			for i := range hash(x, n.K) % 4 {
				if n.Kind == "flatmapin" && n.Gate >= 0 {
					if err := gate.Do(ctx, p.gates[n.Gate], 1, func(context.Context) error {
						defer p.gates[n.Gate].enter(1)()
						time.Sleep(n.Delay)
						return nil
					}); err != nil {
						return err
					}
				}
				if !send(x*16 + i) {
					if ctx.Err() == nil {
						p.add("send of FlatMap: false, and the context has not ended")
					}
					return nil
				}
			}
			return work(ctx, x)
		}, p.stage(n), costOf(p, n, same))}
	case "batch":
		o := &group.BatchOptions{Wait: n.Delay}
		if n.K%3 == 0 {
			o.Wait = -1
		}
		short := false // a batch that was not full has come
		batches := group.Map(p.g, group.Batch(p.g, in, n.K, o), func(ctx context.Context, b []int) ([]int, error) {
			if len(b) < 1 || len(b) > n.K || o.Wait == 0 && n.Workers < 2 && short {
				p.add("a batch of %d, at most %d", len(b), n.K)
			}
			if n.Workers < 2 {
				short = len(b) < n.K
			}
			return b, work(ctx, b[0])
		}, p.stage(n), costOf(p, n, func(b []int) int { return b[0] }))
		return []<-chan int{group.Flatten(p.g, batches)}
	case "merge":
		ins := []<-chan int{}
		for _, i := range n.In {
			ins = append(ins, p.chans[i])
		}
		return []<-chan int{group.Merge(p.g, ins...)}
	case "tee":
		a, b := group.Tee(p.g, in)
		return []<-chan int{a, b}
	case "nested":
		return []<-chan int{group.Map(p.g, in, func(ctx context.Context, x int) (int, error) {
			if err := work(ctx, x); err != nil {
				return 0, err
			}
			return p.nested(ctx, n, x)
		}, p.stage(n), costOf(p, n, same))}
	}
	panic(n.Kind)
}

// nested makes x*16 + K in a pipeline of its own, inside a function of another.
func (p *pipeline) nested(ctx context.Context, n *node, x int) (int, error) {
	g, _ := group.WithContext(ctx)
	in := group.From(g, func(yield func(int) bool) {
		for range 16 {
			if !yield(x) {
				return
			}
		}
	})
	slots := gate.NewConcurrency(2)
	parts := group.Map(g, in, func(ctx context.Context, x int) (int, error) {
		time.Sleep(n.Delay)
		return x, nil
	}, &group.Stage{Workers: 3, Gate: slots})
	sum, err := group.Reduce(g, parts, n.K, func(_ context.Context, sum, x int) (int, error) { return sum + x, nil })
	if other := g.Wait(); (err == nil) != (other == nil) {
		p.add("nested: the sink has %v, Wait %v", err, other)
	}
	if err == nil && sum != x*16+n.K {
		p.add("nested: %d in place of %d, and no error", sum, x*16+n.K)
	}
	return sum, err
}
