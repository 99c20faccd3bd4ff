package group_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
)

// huge is a cost that no gate here admits, the open one aside.
const huge = 1000

// aRun is a random use of a group. Times are in milliseconds.
type aRun struct {
	WithContext bool
	Limit       int
	Gate        string
	Cancel      int // when the caller's context ends; -1: never
	Jobs        []aJob
}

type aJob struct {
	Pause  int // before it is handed over
	Try    bool
	Cost   int
	Takes  int
	Result string
}

func drawRun(t *rapid.T) (r aRun) {
	r.WithContext = rapid.Bool().Draw(t, "with context")
	r.Limit = rapid.SampledFrom([]int{-1, -1, 1, 2, 3, 7}).Draw(t, "limit")
	r.Gate = rapid.SampledFrom([]string{"rate", "burst", "window", "slots", "all", "open"}).Draw(t, "gate")
	r.Cancel = -1
	if r.WithContext && rapid.Bool().Draw(t, "cancelled") {
		r.Cancel = rapid.IntRange(0, 200).Draw(t, "cancel")
	}
	trouble := rapid.Bool().Draw(t, "trouble")
	for range rapid.IntRange(0, 25).Draw(t, "jobs") {
		j := aJob{
			Pause: rapid.SampledFrom([]int{0, 0, 0, 1, 10, 35}).Draw(t, "pause"),
			Try:   rapid.IntRange(0, 4).Draw(t, "try") == 0,
			Cost:  rapid.IntRange(1, 3).Draw(t, "cost"),
			Takes: rapid.SampledFrom([]int{0, 0, 5, 10, 60}).Draw(t, "takes"),
		}
		j.Result = "nil"
		if rapid.IntRange(0, 9).Draw(t, "exit") == 0 {
			j.Result = "exit"
		}
		if trouble && rapid.IntRange(0, 7).Draw(t, "fail") == 0 {
			j.Result = "error"
		}
		if trouble && !j.Try && r.Gate != "open" && rapid.IntRange(0, 15).Draw(t, "huge") == 0 {
			j.Cost = huge
		}
		r.Jobs = append(r.Jobs, j)
	}
	return r
}

// gateOf returns the gate of that name and its members, if it has any.
func gateOf(name string) (gate.Gate, []gate.Gate) {
	rate := func(burst int) gate.Gate {
		return gate.NewRate(pace.PerSecond(100), &gate.RateOptions{Burst: burst})
	}
	switch name {
	case "rate":
		return rate(3), nil
	case "burst":
		return rate(10), nil
	case "window":
		return gate.NewWindow(5, 50*ms, nil), nil
	case "slots":
		return gate.NewConcurrency(4), nil
	case "all":
		members := []gate.Gate{gate.NewConcurrency(4), rate(5), gate.NewWindow(8, 100*ms, nil)}
		return gate.All(members...), members
	}
	return gate.NewRate(pace.Unlimited(), &gate.RateOptions{Burst: 3}), nil
}

// jobError is the error of job i, which knows when it was returned.
type jobError struct {
	i  int
	at time.Duration
}

func (e *jobError) Error() string { return fmt.Sprintf("job %d failed at %v", e.i, e.at) }

// play carries the run out, in a bubble, and returns the first rule that it broke.
func (r aRun) play() error {
	var (
		began  = time.Now()
		now    = func() time.Duration { return time.Since(began) }
		parent = context.Background()
		cause  = errors.New("cancelled")
		g      = new(group.Group)
		gctx   context.Context
	)
	if r.WithContext {
		var cancel context.CancelCauseFunc
		parent, cancel = context.WithCancelCause(parent)
		defer cancel(nil)
		if r.Cancel >= 0 {
			timer := time.AfterFunc(time.Duration(r.Cancel)*ms, func() { cancel(cause) })
			defer timer.Stop()
		}
		g, gctx = group.WithContext(parent)
	}
	gt, members := gateOf(r.Gate)
	g.SetGate(gt)
	g.SetLimit(r.Limit)

	type book struct {
		starts         map[int]time.Duration
		inFlight, most int
		errors         []*jobError
		doubled        int
	}
	books := make(chan *book, 1) // the lock of the books
	books <- &book{starts: map[int]time.Duration{}}
	edit := func(f func(*book)) {
		b := <-books
		f(b)
		books <- b
	}
	handed := make([]time.Duration, len(r.Jobs)) // when Go returned
	refused := 0                                 // by TryGo
	for i, j := range r.Jobs {
		time.Sleep(time.Duration(j.Pause) * ms)
		job := func() error {
			edit(func(b *book) {
				if _, twice := b.starts[i]; twice {
					b.doubled++
				}
				b.starts[i] = now()
				b.inFlight++
				b.most = max(b.most, b.inFlight)
			})
			time.Sleep(time.Duration(j.Takes) * ms)
			var err error
			edit(func(b *book) {
				b.inFlight--
				if j.Result == "error" {
					e := &jobError{i, now()}
					b.errors = append(b.errors, e)
					err = e
				}
			})
			if j.Result == "exit" {
				runtime.Goexit()
			}
			return err
		}
		before := now()
		if j.Try {
			if !g.TryGo(job) {
				refused++
			}
		} else {
			g.GoCost(j.Cost, job)
		}
		handed[i] = now()
		if waited := handed[i] - before; waited > 0 && (r.Limit < 0 || j.Try) {
			return fmt.Errorf("handing over job %d took %v", i, waited)
		}
	}
	err := g.Wait()
	ended := now()
	b := <-books
	if b.inFlight != 0 {
		return fmt.Errorf("Wait returned with %d in flight", b.inFlight)
	}
	books <- b
	time.Sleep(time.Second) // nothing may happen any more
	synctest.Wait()
	b = <-books

	if b.doubled > 0 {
		return fmt.Errorf("%d jobs ran twice", b.doubled)
	}
	if r.Limit > 0 && b.most > r.Limit {
		return fmt.Errorf("%d in flight, the limit is %d", b.most, r.Limit)
	}
	if r.Gate == "slots" && b.most > 4 {
		return fmt.Errorf("%d in flight, the slots are 4", b.most)
	}
	if gctx != nil && gctx.Err() == nil {
		return errors.New("the context has not ended")
	}
	// failed is when the group has failed: nothing may start later, and nothing may have
	// gone wrong earlier.
	failed := ended
	var mine *jobError
	var capacity *gate.CapacityError
	switch cancel := time.Duration(r.Cancel) * ms; {
	case err == nil:
		if len(b.starts)+refused != len(r.Jobs) {
			return fmt.Errorf("no error with %d of %d run and %d refused", len(b.starts), len(r.Jobs), refused)
		}
	case errors.As(err, &mine):
		failed = mine.at
	case errors.As(err, &capacity):
		if capacity.Cost != huge {
			return fmt.Errorf("error %v for a cost that was never asked for", err)
		}
		for i, j := range r.Jobs {
			if j.Cost == huge {
				failed = handed[i]
				break
			}
		}
	case err == cause:
		if r.Cancel < 0 || ended < cancel {
			return fmt.Errorf("the cause is there at %v, before its time", ended)
		}
		if len(b.starts) == len(r.Jobs) {
			return errors.New("all jobs have run, and yet the context's end is a failure")
		}
		// It is the group's error from when it kept the first job from running, and
		// nothing starts from when it was there.
		failed = cancel
	default:
		return fmt.Errorf("unexpected error: %v", err)
	}
	for _, e := range b.errors {
		if e.at < failed || err == nil {
			return fmt.Errorf("the error is %v, the first was %v", err, e)
		}
	}
	for i, j := range r.Jobs {
		if _, ran := b.starts[i]; ran {
			continue
		}
		if j.Cost == huge && handed[i] < failed {
			return fmt.Errorf("the error is %v, the first was that of job %d, which costs too much", err, i)
		}
		cancel := time.Duration(r.Cancel) * ms
		if r.Cancel < 0 || err == cause || j.Try && handed[i] <= cancel {
			continue
		}
		if at := max(handed[i], cancel); at < failed {
			return fmt.Errorf("the error is %v, the first was that job %d could not run at %v", err, i, at)
		}
	}
	for i, at := range b.starts {
		if at > failed {
			return fmt.Errorf("job %d started at %v, the group had failed at %v", i, at, failed)
		}
		if r.Jobs[i].Cost == huge {
			return fmt.Errorf("job %d started, the gate never admits it", i)
		}
	}
	for _, m := range append(members, gt) {
		s, _ := gate.StatsOf(m)
		if _, ok := m.(*gate.Concurrency); ok && s.InUse != 0 || s.Waiting != 0 {
			return fmt.Errorf("%T afterwards: %+v", m, s)
		}
		// Of those that were let in only what found the context ended in that very
		// instant did not run.
		if n := uint64(len(b.starts)); s.Granted < n || err == nil && s.Granted != n {
			return fmt.Errorf("%T let %d in, %d ran", m, s.Granted, n)
		}
	}
	return nil
}

func TestRandomRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		run, broken := drawRun(rt), error(nil)
		synctest.Test(t, func(*testing.T) { broken = run.play() })
		if broken != nil {
			rt.Fatalf("%v\nin %+v", broken, run)
		}
	})
}
