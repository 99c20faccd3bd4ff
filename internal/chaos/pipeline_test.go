package chaos_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"pgregory.net/rapid"
)

func TestPipelines(t *testing.T) {
	repeated(t, 10, func(rt *rapid.T) {
		plan := drawPipeline(rt)
		inBubble(t, rt, plan.run)
	})
}

// startJobs hands the jobs over and returns how many must run if the group does not fail.
func (p *pipeline) startJobs() (started int) {
	for _, j := range p.Jobs {
		n := &node{Kind: "job", Gate: p.JobGate, Fail: j.Fail, Delay: j.Delay}
		if n.Fail == "exit" {
			n.Fail = "" // counts as a return without an error
		}
		cost := 1
		if p.JobGate >= 0 && j.How == "cost" {
			cost = min(j.Cost, p.gates[p.JobGate].capacity)
		}
		for range j.Times {
			f := func() error {
				p.mu.Lock()
				p.jobsRun++
				if p.JobGate >= 0 && !p.failedAt.IsZero() && time.Now().After(p.failedAt) {
					p.add("a job was begun %v after the failure", time.Since(p.failedAt))
				}
				p.mu.Unlock()
				if p.JobGate >= 0 {
					defer p.gates[p.JobGate].enter(cost)()
				}
				time.Sleep(j.Delay)
				return p.fail(n, 0, false)
			}
			switch j.How {
			case "go":
				p.g.Go(f)
				started++
			case "cost":
				p.g.GoCost(cost, f)
				started++
			case "try":
				if p.g.TryGo(f) {
					started++
				}
			}
		}
	}
	return started
}

// reading is what a sink has got.
type reading struct {
	node
	got  []int
	err  error
	wait error // of Wait in the loop
	left bool
}

// read reads a channel to the end, or as far as the plan says.
func (p *pipeline) read(s node) (r reading) {
	r.node = s
	in, work, mu := p.chans[s.In[0]], p.worker(&s, true), sync.Mutex{}
	take := func(ctx context.Context, x int) error {
		if err := work(ctx, x); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.got = append(r.got, x)
		return nil
	}
	leaves := func() bool {
		r.left = s.Kind != "all" && len(r.got) >= s.Items
		if r.left {
			p.mu.Lock()
			p.left = true
			p.mu.Unlock()
		}
		return r.left
	}
	switch s.Kind {
	case "foreach":
		r.err = group.ForEach(p.g, in, take, p.stage(&s), costOf(p, &s, same))
	case "reduce":
		s.Gate = -1
		if s.Fail != "error" {
			s.Fail = ""
		}
		_, r.err = group.Reduce(p.g, in, 0, func(ctx context.Context, sum, x int) (int, error) { return sum + x, take(ctx, x) })
	case "collect":
		r.got, r.err = group.Collect(p.g, in)
	case "range":
		for x := range group.Merge(p.g, in) { // in may be a channel that the group knows nothing of
			time.Sleep(s.Delay)
			r.got = append(r.got, x)
		}
		return r // and never knows of an error
	case "first":
		x, ok, err := group.First(p.g, in)
		if ok {
			r.got = []int{x}
		}
		if r.err = err; ok {
			p.mu.Lock()
			p.left, r.left = true, true
			p.mu.Unlock()
		}
	case "all", "break":
		for x, err := range group.All(p.g, in) {
			if r.err = err; err == nil {
				time.Sleep(s.Delay)
				r.got = append(r.got, x)
			}
			if leaves() {
				break
			}
		}
	case "return":
		r.wait = func() error {
			for x, err := range group.All(p.g, in) {
				if r.err = err; err == nil {
					r.got = append(r.got, x)
				}
				if leaves() {
					return p.g.Wait()
				}
			}
			return nil
		}()
	}
	if r.err != nil || r.left {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sealed = true
		if p.inFlight != 0 {
			p.add("%s has returned, with %d calls under way", s.Kind, p.inFlight)
		}
	}
	return r
}

// expected returns what comes out of channel c of a complete run, and whether in that order.
func (p *pipeline) expected() (values [][]int, inOrder []bool) {
	for id, n := range p.Nodes {
		out, ordered := []int{}, true
		for _, in := range n.In {
			ordered = ordered && inOrder[in]
			for _, x := range values[in] {
				switch n.Kind {
				case "filter":
					if hash(x, n.K)%3 > 0 {
						out = append(out, x)
					}
				case "flatmap", "flatmapin":
					for i := range hash(x, n.K) % 4 {
						out = append(out, x*16+i)
					}
				case "batch", "merge", "tee":
					out = append(out, x)
				case "trymap":
					if p.dropped[[2]int{id, x}]--; p.dropped[[2]int{id, x}] < 0 {
						out = append(out, x*16+n.K)
					}
				default:
					out = append(out, x*16+n.K)
				}
			}
		}
		for i := range n.Items {
			if n.In == nil {
				out = append(out, id*100+i)
			}
		}
		switch n.Kind {
		case "map", "trymap", "filter", "flatmap", "flatmapin", "batch", "nested":
			ordered = ordered && (n.Ordered || n.Workers < 2)
		case "merge":
			ordered = ordered && len(n.In) == 1
		}
		values, inOrder = append(values, out), append(inOrder, ordered)
		if n.Kind == "tee" {
			values, inOrder = append(values, out), append(inOrder, ordered)
		}
	}
	return values, inOrder
}

// judge compares what came out with what the docs say.
func (p *pipeline) judge(err error, all []reading, started int) {
	checkGates(&p.complaints, p.gates)
	values, inOrder := p.expected()
	if err == nil && len(p.failures) > 0 && !p.left {
		p.add("Wait: nil after %v", p.failures)
	}
	if err != nil && !p.known(err) {
		p.add("Wait: %v, which did not happen", err)
	}
	if cause := context.Cause(p.ctx); !p.Zero && !p.left && (cause == nil || err != nil && cause != err && p.Cancel+p.Deadline == 0) {
		p.add("Wait: %v, and the cause is %v", err, cause)
	}
	if p.JobGate < 0 || err == nil && !p.left {
		if p.jobsRun != started {
			p.add("%d jobs run of %d, Wait: %v", p.jobsRun, started, err)
		}
	}
	for _, r := range all {
		want := values[r.In[0]]
		ordered := inOrder[r.In[0]] && (r.Kind != "foreach" || r.Workers < 2)
		if r.err != nil && r.err != err && (!p.left || r.err != group.ErrStopped) {
			p.add("%s: %v, and Wait: %v", r.Kind, r.err, err)
		}
		if err != nil && r.wait != nil && r.wait != err {
			p.add("Wait in the loop: %v, and then %v", r.wait, err)
		}
		rest, wrong := slices.Clone(want), false
		for i, x := range r.got {
			at := slices.Index(rest, x)
			wrong = wrong || at < 0 || ordered && want[i] != x
			if at >= 0 {
				rest = slices.Delete(rest, at, at+1)
			}
		}
		cut := r.left || r.err != nil || r.Kind == "range" && (err != nil || p.left)
		if wrong || len(rest) > 0 && !cut {
			p.add("%s in order %v: %v of %v, error %v, Wait %v", r.Kind, ordered, r.got, want, r.err, err)
		}
	}
	for _, s := range p.stages {
		if c := s.Stats(); c.Idle != 0 || c.AtGate != 0 || c.InFlight != 0 || c.Blocked != 0 {
			p.add("meter of a %s at the end: %+v", s.Kind, c)
		} else if n := uint64(len(values[s.In[0]])); err == nil && !p.left && s.Kind != "batch" && c.In != n {
			p.add("meter of a %s: %+v of %d", s.Kind, c, n)
		}
	}
}

// known reports whether err is one that has happened.
func (p *pipeline) known(err error) bool {
	var panicked *group.PanicError
	var over *gate.CapacityError
	for _, f := range p.failures {
		if errors.Is(err, f) || f == errOver && errors.As(err, &over) || p.exited && !errors.As(err, &panicked) {
			return true
		}
	}
	return p.Cancel > 0 && errors.Is(err, errParent) || p.Deadline > 0 && errors.Is(err, context.DeadlineExceeded)
}
