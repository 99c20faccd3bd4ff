package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"pgregory.net/rapid"
)

// ownJob is a job of a group, and the jobs that it starts itself.
type ownJob struct {
	How      string // go, cost, each, try
	Cost     int
	At       time.Duration // when it is handed over
	Takes    time.Duration
	Ends     string // ok, fail, panic, exit
	Children []ownJob
}

// jobsPlan is a group with a limit and a gate.
type jobsPlan struct {
	Limit    int // -1: none
	Gate     string
	N        int
	Span     time.Duration
	Recover  bool
	Context  string // none, with, deadline
	Deadline time.Duration
	Rounds   [][]ownJob // the group is waited for after each
}

func drawJob(rt *rapid.T, p *jobsPlan, depth int) ownJob {
	hows := []string{"try"}
	if depth == 0 || p.Limit < 0 {
		hows = []string{"go", "cost", "each", "try"} // a job must not wait for a limit that it takes up itself
	}
	j := ownJob{How: rapid.SampledFrom(hows).Draw(rt, "how"), Cost: rapid.IntRange(1, max(1, p.N)).Draw(rt, "cost"), Ends: "ok"}
	if p.Gate == "none" && j.How == "each" {
		j.How = "go"
	}
	j.At, j.Takes = span(rt, "at"), span(rt, "takes")
	if maybe(rt, "ends?", 12) {
		j.Ends = rapid.SampledFrom([]string{"fail", "panic", "exit"}).Draw(rt, "ends")
		if j.Ends == "panic" && !p.Recover {
			j.Ends = "fail"
		}
	}
	if depth < 3 {
		for range rapid.IntRange(0, 2).Draw(rt, "children") {
			j.Children = append(j.Children, drawJob(rt, p, depth+1))
		}
	}
	return j
}

func drawJobs(rt *rapid.T) jobsPlan {
	p := jobsPlan{Limit: rapid.SampledFrom([]int{-1, -1, 1, 2, 3, 7}).Draw(rt, "limit"), N: rapid.IntRange(1, 5).Draw(rt, "n"), Span: span(rt, "span") + 1}
	p.Gate = rapid.SampledFrom([]string{"none", "slots", "window", "answered", "all"}).Draw(rt, "gate")
	p.Recover, p.Context = rapid.Bool().Draw(rt, "recover"), rapid.SampledFrom([]string{"none", "with", "deadline"}).Draw(rt, "context")
	p.Deadline = span(rt, "deadline")
	for range rapid.IntRange(1, 2).Draw(rt, "rounds") {
		var jobs []ownJob
		for range rapid.IntRange(1, 8).Draw(rt, "jobs") {
			jobs = append(jobs, drawJob(rt, &p, 0))
		}
		p.Rounds = append(p.Rounds, jobs)
	}
	return p
}

// jobsRun is what becomes of a plan.
type jobsRun struct {
	complaints
	jobsPlan
	g                     *group.Group
	ctx                   context.Context
	slots                 *gate.Concurrency
	charged               *gate.Window // for ever
	running               atomic.Int64
	mu                    sync.Mutex
	handed, started, cost int
	failed                time.Time
}

func (r *jobsRun) run() error {
	r.g, r.ctx = new(group.Group), context.Background()
	switch r.Context {
	case "with":
		r.g, r.ctx = group.WithContext(r.ctx)
	case "deadline":
		ctx, cancel := context.WithTimeout(r.ctx, r.Deadline)
		defer cancel()
		r.g, r.ctx = group.WithContext(ctx)
	}
	r.g.SetLimit(r.Limit)
	r.g.SetRecover(r.Recover)
	r.slots, r.charged = gate.NewConcurrency(r.N), gate.NewWindow(1<<30, 1e6*time.Hour, nil)
	switch r.Gate {
	case "slots":
		r.g.SetGate(gate.All(r.slots, r.charged))
	case "window":
		r.g.SetGate(gate.All(gate.NewWindow(r.N, r.Span, nil), r.charged))
	case "answered":
		r.g.SetGate(gate.All(r.charged, gate.NewWindow(r.N, r.Span, &gate.WindowOptions{UntilAnswer: true})))
	case "all":
		r.g.SetGate(gate.All(gate.All(r.slots, gate.NewWindow(r.N, r.Span, nil)), r.charged))
	}
	for round, jobs := range r.Rounds {
		slices.SortFunc(jobs, func(a, b ownJob) int { return int(max(-1, min(1, a.At-b.At))) })
		began := time.Now()
		for _, j := range jobs {
			time.Sleep(j.At - time.Since(began))
			r.start(j)
		}
		err := r.g.Wait()
		r.check(round, err)
		if r.Context != "none" {
			break // its context has ended for good
		}
	}
	synctest.Wait()
	return r.err()
}

func (r *jobsRun) start(j ownJob) {
	r.mu.Lock()
	r.handed++
	r.mu.Unlock()
	cost := 1
	f := func() error { return r.job(j, cost) }
	before := time.Now()
	switch j.How {
	case "go":
		r.g.Go(f)
	case "cost":
		if r.Gate != "none" {
			cost = j.Cost
		}
		r.g.GoCost(j.Cost, f)
	case "each":
		cost = j.Cost
		r.g.GoEach(func(ctx context.Context) error {
			if _, ok := gate.PassOf(ctx); !ok {
				r.add("no pass")
			}
			return f()
		}, j.Cost)
	case "try":
		if !r.g.TryGo(f) {
			r.mu.Lock()
			r.handed--
			r.mu.Unlock()
		}
	}
	if r.Limit < 0 && time.Since(before) > 0 {
		r.add("%s took %v", j.How, time.Since(before))
	}
}

func (r *jobsRun) job(j ownJob, cost int) error {
	r.mu.Lock()
	r.started++
	r.cost += cost
	if r.Gate != "none" && !r.failed.IsZero() && time.Now().After(r.failed) {
		r.add("a job began %v after the failure", time.Since(r.failed))
	}
	r.mu.Unlock()
	if n := int(r.running.Add(1)); r.Limit >= 0 && n > r.Limit {
		r.add("%d jobs run, of at most %d", n, r.Limit)
	}
	defer r.running.Add(-1)
	for _, c := range j.Children {
		r.start(c)
	}
	time.Sleep(j.Takes)
	switch j.Ends {
	case "fail", "panic":
		r.mu.Lock()
		if r.failed.IsZero() {
			r.failed = time.Now()
		}
		r.mu.Unlock()
		if j.Ends == "panic" {
			panic(errStop)
		}
		return errPlain
	case "exit":
		// counts as a return without an error
	}
	return nil
}

func (r *jobsRun) check(round int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var panicked *group.PanicError
	switch {
	case r.failed.IsZero() && err != nil && r.Context != "deadline":
		r.add("round %d: %v, but no job has failed", round, err)
	case r.failed.IsZero() && err != nil && !errors.Is(err, context.DeadlineExceeded):
		r.add("round %d: %v", round, err)
	case !r.failed.IsZero() && err == nil:
		r.add("round %d: no error", round)
	case !r.failed.IsZero() && r.Context != "deadline" && err != errPlain && !(errors.As(err, &panicked) && errors.Is(err, errStop)):
		r.add("round %d: %v", round, err)
	}
	if (err == nil || r.Gate == "none") && r.started != r.handed {
		r.add("round %d: %d jobs ran, of %d; error %v", round, r.started, r.handed, err)
	}
	if n := r.charged.Stats().InUse; r.Gate != "none" && n != r.cost {
		r.add("round %d: charged %d, want %d", round, n, r.cost)
	}
	if s := r.slots.Stats(); s.InUse != 0 || s.Waiting != 0 || r.charged.Stats().Waiting != 0 {
		r.add("round %d: %+v", round, s)
	}
	if r.Context != "none" && r.ctx.Err() == nil {
		r.add("round %d: the context has not ended", round)
	}
}

// Jobs start others, with a limit and a gate. Wait returns nil only if all have run, no job begins after a
// failure, and what was charged is what ran.
func TestJobs(t *testing.T) {
	repeated(t, 10, func(rt *rapid.T) {
		r := &jobsRun{jobsPlan: drawJobs(rt)}
		inBubble(t, rt, func() error {
			if err := r.run(); err != nil {
				return fmt.Errorf("%w\n%+v", err, r.jobsPlan)
			}
			return nil
		})
	})
}
