package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

var errParent = errors.New("the caller has cancelled")

// pipeline is one run of a plan.
type pipeline struct {
	pipelinePlan
	complaints
	g     *group.Group
	ctx   context.Context // the group's; of a zero Group, one that never ends
	gates []tracked
	chans []<-chan int

	mu       sync.Mutex
	failures []error // that were injected, and fail the group
	failedAt time.Time
	exited   bool           // a function has ended its goroutine
	left     bool           // a reader has left
	sealed   bool           // a sink has said that all stages have ended
	inFlight int            // calls of stages
	dropped  map[[2]int]int // by node and item, those whose error travelled with them
	stages   []stageCount
	jobsRun  int
}

// stageCount is what a stage with a Meter should have counted.
type stageCount struct {
	*group.Meter
	node
}

// hash spreads values for decisions on them.
func hash(x, k int) int { return (x*31 + x>>7 + x>>13 + k*17) % 1009 }

// fail makes the failure that the plan has for call number i of n. Those that travel with their
// item don't fail the group.
func (p *pipeline) fail(n *node, i int, travels bool) error {
	if n.Fail == "" || i != n.FailAt || n.Fail == "over" {
		return nil
	}
	err := fmt.Errorf("failure of a %s", n.Kind)
	p.mu.Lock()
	if !travels || n.Fail == "exit" {
		p.failures = append(p.failures, err)
		p.exited = p.exited || n.Fail == "exit"
		p.noteFailure()
	}
	p.mu.Unlock()
	switch n.Fail {
	case "panic":
		panic(err)
	case "exit":
		runtime.Goexit()
	}
	return err
}

// noteFailure notes when the group failed. The caller holds the lock.
func (p *pipeline) noteFailure() {
	if p.failedAt.IsZero() {
		p.failedAt = time.Now()
	}
}

// worker returns what is called for each item of a node: it checks that the call may be, takes its
// time, and fails where the plan says so.
func (p *pipeline) worker(n *node, sink bool) func(context.Context, int) error {
	calls := 0
	return func(ctx context.Context, x int) error {
		p.mu.Lock()
		i := calls
		calls++
		if !p.failedAt.IsZero() && time.Now().After(p.failedAt) {
			p.add("%s called %v after the failure", n.Kind, time.Since(p.failedAt))
		}
		if p.sealed && !sink {
			p.add("%s called after a sink has returned", n.Kind)
		}
		if !sink {
			p.inFlight++
		}
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !sink {
				p.inFlight--
			}
		}()
		if n.Gate >= 0 && n.Kind != "flatmapin" {
			defer p.gates[n.Gate].enter(p.cost(n, x))()
		}
		time.Sleep(n.Delay * time.Duration(hash(x, 5)%3))
		return p.fail(n, i, n.Kind == "trymap")
	}
}

func (p *pipeline) cost(n *node, x int) int {
	if n.Cost == 0 {
		return 1
	}
	return min(1+hash(x, 3)%n.Cost, p.gates[n.Gate].capacity)
}

// stage returns the Stage of a node, with a Cost for items of type A.
func stage[A any](p *pipeline, n *node, value func(A) int) *group.Stage {
	s := &group.Stage{Workers: n.Workers, Ordered: n.Ordered, Buffer: n.Buffer}
	if n.Meter {
		s.Meter = &group.Meter{}
		p.mu.Lock()
		p.stages = append(p.stages, stageCount{Meter: s.Meter, node: *n})
		p.mu.Unlock()
	}
	if n.Gate >= 0 && n.Kind != "flatmapin" {
		s.Gate = p.gates[n.Gate].Gate
		calls, mu := 0, sync.Mutex{}
		if n.Cost > 0 || n.Fail == "over" {
			s.Cost = func(a A) int {
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
	}
	return s
}

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
		return []<-chan int{group.Map(p.g, in, next, stage(p, n, same))}
	case "trymap":
		results := group.TryMap(p.g, in, next, stage(p, n, same))
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
		}, stage(p, n, same))}
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
		}, stage(p, n, same))}
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
		}, stage(p, n, func(b []int) int { return b[0] }))
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
		}, stage(p, n, same))}
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

// run runs the plan, and says what is wrong.
func (plan pipelinePlan) run() error {
	p := &pipeline{pipelinePlan: plan, ctx: context.Background(), gates: makeGates(plan.Gates), dropped: map[[2]int]int{}}
	parent, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if p.Deadline > 0 {
		var stop func()
		parent, stop = context.WithTimeout(parent, p.Deadline)
		defer stop()
	}
	if p.Cancel > 0 {
		time.AfterFunc(p.Cancel, func() { cancel(errParent) })
	}
	if p.Zero {
		p.g = new(group.Group)
	} else {
		p.g, p.ctx = group.WithContext(parent)
		context.AfterFunc(p.ctx, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.noteFailure()
		})
	}
	p.g.SetRecover(true)
	p.g.SetLimit(p.Limit)
	if p.JobGate >= 0 {
		p.g.SetGate(p.gates[p.JobGate].Gate)
	}
	for i := range p.Nodes {
		p.chans = append(p.chans, p.build(&p.Nodes[i], i)...)
	}
	reads := make(chan reading, len(p.Sinks))
	for _, s := range p.Sinks[1:] {
		if s.Job {
			p.g.Go(func() error {
				r := p.read(s)
				reads <- r
				return r.err
			})
		} else {
			go func() { reads <- p.read(s) }()
		}
	}
	started := p.startJobs()
	synctest.Wait() // a sink must not begin after Wait
	mine := p.read(p.Sinks[0])
	reads <- mine
	err := p.g.Wait()
	p.mu.Lock()
	p.sealed = true
	p.mu.Unlock()
	all := []reading{}
	for range p.Sinks {
		all = append(all, <-reads)
	}
	if mine.wait != nil && err == nil {
		p.add("Wait in the loop: %v, and then nil", mine.wait)
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	p.judge(err, all, started)
	return p.complaints.err()
}
