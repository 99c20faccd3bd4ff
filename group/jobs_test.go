package group_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

func checkJobs(b *bubble.B, when string, g *group.Group, want group.JobStats) {
	b.Helper()
	b.Settle()
	if got := g.Stats(); got != want {
		b.Errorf("%s:\n got %+v\nwant %+v", when, got, want)
	}
}

// A group without a gate or a limit counts what its jobs do.
func TestJobs(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var g group.Group
		checkJobs(b, "at first", &g, group.JobStats{Limit: -1})
		stop := make(chan error)
		for range 3 {
			g.Go(func() error { return <-stop })
		}
		g.TryGo(func() error { return <-stop })
		g.SetName("jobs")
		checkJobs(b, "four jobs", &g, group.JobStats{Name: "jobs", Limit: -1, Started: 4, Running: 4})
		stop <- nil
		stop <- errors.New("no")
		checkJobs(b, "two are done", &g, group.JobStats{Name: "jobs", Limit: -1, Started: 4, Done: 2, Failed: 1, Running: 2})
		close(stop)
		g.Wait()
		checkJobs(b, "at the end", &g, group.JobStats{Name: "jobs", Limit: -1, Started: 4, Done: 4, Failed: 1})
	})
}

// Calls of Go that wait for the limit are jobs that are queued, with a gate and without.
func TestJobsQueue(t *testing.T) {
	for _, gated := range []bool{false, true} {
		bubble.Both(t, func(b *bubble.B) {
			var g group.Group
			g.SetLimit(2)
			if gated {
				g.SetGate(gate.NewConcurrency(1))
			}
			stop := make(chan error)
			go func() {
				for range 3 {
					g.Go(func() error { return <-stop })
				}
			}()
			want := group.JobStats{Limit: 2, Started: 3, Queued: 1, Running: 2}
			if gated {
				want.AtGate, want.Running = 1, 1
			}
			checkJobs(b, "three jobs", &g, want)
			if g.TryGo(func() error { return nil }) {
				b.Error("TryGo beyond the limit")
			}
			checkJobs(b, "after TryGo", &g, want)
			stop <- nil
			want.Queued, want.Done = 0, 1
			checkJobs(b, "one is done", &g, want)
			close(stop)
			b.Settle()
			g.Wait()
			checkJobs(b, "at the end", &g, group.JobStats{Limit: 2, Started: 3, Done: 3})
		})
	}
}

// Jobs that the gate refuses have failed, and those that the end of the context keeps back were skipped.
func TestJobsAtTheGate(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g, _ := group.WithContext(context.Background())
		slots := gate.NewConcurrency(1)
		g.Go(func() error { return nil }) // before there is a gate
		b.Settle()
		g.SetGate(slots)
		stop := make(chan error)
		for range 4 {
			g.Go(func() error { return <-stop })
		}
		checkJobs(b, "four jobs", g, group.JobStats{Limit: -1, Started: 5, Done: 1, AtGate: 3, Running: 1})
		stop <- nil
		checkJobs(b, "one is done", g, group.JobStats{Limit: -1, Started: 5, Done: 2, AtGate: 2, Running: 1})
		g.GoCost(5, func() error { return nil })
		g.Go(func() error { return nil })
		b.Settle()
		checkJobs(b, "one was refused", g, group.JobStats{Limit: -1, Started: 7, Done: 6, Failed: 1, Skipped: 3, Running: 1})
		close(stop)
		g.Wait()
		g.Go(func() error { return nil })
		checkJobs(b, "at the end", g, group.JobStats{Limit: -1, Started: 8, Done: 8, Failed: 1, Skipped: 4})
	})
}

// Stages and readers of a pipeline are no jobs.
func TestJobsBesideAPipeline(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g, _ := group.WithContext(context.Background())
		in := make(chan int)
		out := group.Map(g, in, func(_ context.Context, n int) (int, error) { return n, nil }, &group.Stage{Workers: 3})
		var sum int
		read := make(chan struct{})
		go func() {
			for n := range group.All(g, out) {
				sum += n
			}
			close(read)
		}()
		stop := make(chan struct{})
		g.Go(func() error { <-stop; return nil })
		in <- 1
		checkJobs(b, "beside a pipeline", g, group.JobStats{Limit: -1, Started: 1, Running: 1})
		close(stop)
		checkJobs(b, "beside a pipeline", g, group.JobStats{Limit: -1, Started: 1, Done: 1})
		close(in)
		<-read
		g.Wait()
		more := make(chan struct{})
		g.Go(func() error { <-more; return nil })
		checkJobs(b, "after the pipeline", g, group.JobStats{Limit: -1, Started: 2, Done: 1, Running: 1})
		close(more)
		g.Wait()
	})
}

// At any instant each job is in one state, and what the group says of its gate agrees with the gate.
func TestJobsAddUp(t *testing.T) {
	for seed := range uint64(5) {
		bubble.Both(t, func(b *bubble.B) {
			r := rand.New(rand.NewPCG(seed, 1))
			g, _ := group.WithContext(context.Background())
			rate := gate.NewRate(pace.PerSecond(20), &gate.RateOptions{Clock: b.Clock(), Burst: 3})
			g.SetGate(rate)
			g.SetLimit(10)
			given := make(chan struct{})
			go func() {
				for range 100 {
					work := time.Duration(r.IntN(600)) * time.Millisecond
					g.Go(func() error { b.Sleep(work); return nil })
				}
				close(given)
			}()
			for range 200 {
				b.Advance(73 * time.Millisecond)
				s, w := g.Stats(), rate.Stats()
				if int(s.Started-s.Done) != s.Queued+s.AtGate+s.Running || s.AtGate != w.Waiting || uint64(s.Running)+s.Done != w.Granted || s.Running+s.AtGate > 10 {
					b.Fatalf("%+v, with %+v at the gate", s, w)
				}
			}
			<-given
			if s := g.Stats(); s.Done != 100 || s.Running != 0 {
				b.Errorf("%+v", s)
			}
			g.Wait()
		})
	}
}

// What the items of a stage wait at its gate is in the gate's statistics, to the nanosecond, and each wait is an event.
func TestPipelineWaits(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		rate := gate.Named("stage", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}))
		var mu sync.Mutex
		var waits int
		var sum time.Duration
		gate.Observe(rate, gate.ObserverFunc(func(e gate.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind != gate.EventAdmitted || e.Name != "stage" {
				b.Errorf("event %+v", e)
			}
			waits++
			sum += e.Wait
		}))
		g, _ := group.WithContext(context.Background())
		in := group.From(g, func(yield func(int) bool) {
			for i := range 20 {
				if !yield(i) {
					return
				}
			}
		})
		out := group.Map(g, in, func(_ context.Context, n int) (int, error) { return n, nil }, &group.Stage{Workers: 4, Gate: rate})
		done := make(chan error)
		go func() {
			_, err := group.Collect(g, out)
			done <- err
		}()
		b.Advance(150 * time.Millisecond)
		if s := rate.Stats(); s.Waiting != 4 || s.Longest != 150*time.Millisecond {
			b.Errorf("after 150 ms: %+v", s)
		}
		b.Advance(2 * time.Second)
		if err := <-done; err != nil {
			b.Error(err)
		}
		// The first four come at once, and each of the others when the one four before it was admitted.
		want := (0 + 100 + 200 + 300 + 16*400) * time.Millisecond
		if s := rate.Stats(); s.Waited != want || sum != want || waits != 19 || s.Granted != 20 {
			b.Errorf("%+v, want a wait of %v; %d events say %v", s, want, waits, sum)
		}
	})
}
