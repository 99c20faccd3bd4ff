package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing/synctest"
	"time"

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
func hash(x, k int) int { return ((x*31+x>>7+x>>13+k*17)%1009 + 1009) % 1009 }

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
		if n.gated() {
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
