package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// script is a call: its policy, what its attempts do, and what happens to its context. All
// instants of the policy and the attempts are multiples of 4 ns; the context's deadline and
// its cancellation are not, so no two things happen at one instant.
type script struct {
	attempts  int
	throttles int
	elapsed   time.Duration
	longest   time.Duration // hint
	base      time.Duration // of the delays
	interval  time.Duration // of the gate; 0: no gate
	floor     int           // retries that the budget has in all; -1: no budget
	deadline  time.Duration // 0: none
	cancel    time.Duration // 0: never
	steps     []modelStep
	mock      bool
}

type modelStep struct {
	kind  string // success, failure, throttle, stop
	takes time.Duration
	hint  time.Duration
}

func (s modelStep) err() error {
	err := errA
	switch s.kind {
	case "success":
		return nil
	case "throttle":
		return retry.Throttled(s.hint, err)
	case "stop":
		err = retry.Stop(err)
	}
	if s.hint != 0 {
		err = retry.After(s.hint, err)
	}
	return err
}

func drawScript(t *rapid.T) script {
	quarter := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * 4
	}
	maybe := func(name string, d time.Duration) time.Duration {
		if rapid.Bool().Draw(t, name) {
			return d
		}
		return 0
	}
	s := script{
		attempts:  rapid.IntRange(-1, 5).Draw(t, "attempts"),
		throttles: rapid.IntRange(-1, 5).Draw(t, "throttles"),
		elapsed:   maybe("bounded", quarter("elapsed", 100)+2),
		longest:   max(maybe("hints bounded", quarter("longest hint", 30)), 0),
		base:      quarter("base", 10),
		interval:  maybe("gated", quarter("interval", 20)),
		floor:     rapid.IntRange(-1, 6).Draw(t, "budget"),
		deadline:  maybe("deadline set", quarter("deadline", 100)+1),
		cancel:    maybe("cancelled", quarter("cancel", 100)+3),
		mock:      rapid.Bool().Draw(t, "mock"),
	}
	s.steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelStep {
		return modelStep{
			kind:  rapid.SampledFrom([]string{"failure", "failure", "failure", "throttle", "throttle", "stop", "success"}).Draw(t, "kind"),
			takes: time.Duration(rapid.IntRange(0, 10).Draw(t, "takes")) * 4,
			hint:  time.Duration(rapid.IntRange(-3, 10).Draw(t, "hint")) * 16,
		}
	}), 0, 30).Draw(t, "steps")
	return s
}

// backoff depends on both of what it is told.
func (s script) backoff(n int, prev time.Duration) time.Duration {
	return s.base*time.Duration(n%3) + prev/8*4
}

// fate is what becomes of a call.
type fate struct {
	starts   []time.Duration
	end      time.Duration
	attempts int
	reason   error // nil: success
	events   []retry.Event
}

func (f fate) String() string {
	return fmt.Sprintf("attempts at %d, end at %d, %d failed, reason %v, events %v", f.starts, f.end, f.attempts, f.reason, f.events)
}

// reference is the whole of the rules, one after another, on a clock that is a number.
func (s script) reference() (f fate) {
	const never = time.Duration(1 << 60)
	var now, prev time.Duration
	throttles, delays := 0, 0
	next, left := time.Duration(0), s.floor
	elapsed, deadline, cancel, longest := never, never, never, 24*time.Hour
	if s.elapsed != 0 {
		elapsed = s.elapsed
	}
	if s.deadline != 0 {
		deadline = s.deadline
	}
	if s.cancel != 0 {
		cancel = s.cancel
	}
	if s.longest != 0 {
		longest = s.longest
	}
	// dead returns what has ended the context by an instant.
	dead := func(at time.Duration) error {
		switch {
		case min(deadline, cancel) > at:
			return nil
		case deadline < cancel:
			return context.DeadlineExceeded
		}
		return errCause
	}
	end := func(reason error) fate {
		f.end, f.reason = now, reason
		return f
	}
	for i := 0; ; i++ {
		if s.interval > 0 {
			at := max(now, next)
			if at > now {
				switch {
				case at > elapsed && elapsed < deadline:
					return end(retry.ErrElapsed)
				case at >= deadline:
					return end(context.DeadlineExceeded)
				case dead(at) != nil:
					err := dead(at)
					now = min(deadline, cancel)
					return end(err)
				}
			}
			now, next = at, at+s.interval
		}
		f.starts = append(f.starts, now)
		step := modelStep{kind: "success"}
		if i < len(s.steps) {
			step = s.steps[i]
		}
		now += step.takes
		throttled := step.kind == "throttle"
		if step.kind == "success" {
			return end(nil)
		}
		if throttled {
			throttles++
		} else {
			f.attempts++
		}
		if err := dead(now); err != nil {
			return end(err)
		}
		if step.kind == "stop" {
			return end(retry.ErrStopped)
		}
		bound := s.attempts
		if bound == 0 {
			bound = 10
		}
		if !throttled && bound > 0 && f.attempts >= bound {
			return end(retry.ErrAttempts)
		}
		bound = s.throttles
		if bound == 0 {
			bound = 20
		}
		if throttled && throttles == bound {
			return end(retry.ErrThrottles)
		}
		delays++
		prev = s.backoff(delays, prev)
		delay := max(step.hint, prev)
		queues := throttled && s.interval > 0
		switch {
		case now+delay > elapsed:
			return end(retry.ErrElapsed)
		case now+delay >= deadline:
			return end(context.DeadlineExceeded)
		case step.hint > longest:
			return end(retry.ErrRetryAfter)
		}
		if s.floor >= 0 && !queues {
			if left == 0 {
				return end(retry.ErrBudget)
			}
			left--
		}
		f.events = append(f.events, retry.Event{Attempt: f.attempts, Throttles: throttles, Throttled: throttled, Delay: delay})
		if err := dead(now + delay); err != nil {
			now = min(deadline, cancel)
			return end(err)
		}
		now += delay
	}
}

// perform makes the call in a bubble of its own.
func (s script) perform(t *testing.T) (f fate, problem string) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		now := func() time.Duration { return time.Since(begin) }
		sleep, advance := time.Sleep, time.Sleep
		ctx, stop := context.Background(), context.CancelFunc(func() {})
		p := retry.Policy{Attempts: s.attempts, Throttles: s.throttles, Elapsed: s.elapsed, MaxRetryAfter: s.longest, Backoff: s.backoff}
		var mock *clock.Mock
		if s.mock {
			mock = clock.NewMock()
			p.Clock = mock
			now = func() time.Duration { return time.Duration(mock.Now().UnixNano()) }
			advance = mock.Add
			sleep = func(d time.Duration) {
				awake := make(chan struct{})
				mock.AfterFunc(d, func() { close(awake) })
				<-awake
			}
		}
		if s.deadline > 0 && s.mock {
			ctx, stop = mock.WithTimeout(ctx, s.deadline)
		} else if s.deadline > 0 {
			ctx, stop = context.WithTimeout(ctx, s.deadline)
		}
		defer stop()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if s.cancel > 0 {
			go func() {
				sleep(s.cancel)
				cancel(errCause)
			}()
		}
		if s.interval > 0 {
			p.Gate = gate.NewRate(pace.Every(s.interval), &gate.RateOptions{Slack: -1, Clock: p.Clock})
		}
		if s.floor == 0 {
			p.Budget = &retry.Budget{Share: -1, Floor: -1}
		} else if s.floor > 0 {
			// On a clock that stands still.
			p.Budget = &retry.Budget{Share: -1, Floor: s.floor, Clock: clock.NewMock()}
		}
		p.OnRetry = func(e retry.Event) {
			if !errors.Is(e.Err, errA) {
				problem = fmt.Sprintf("OnRetry was told %v", e.Err)
			}
			e.Err = nil
			f.events = append(f.events, e)
		}
		done := make(chan error, 1)
		go func() {
			v, err := retry.Do(ctx, &p, func(context.Context) (int, error) {
				i := len(f.starts)
				f.starts = append(f.starts, now())
				step := modelStep{kind: "success"}
				if i < len(s.steps) {
					step = s.steps[i]
				}
				if step.takes > 0 {
					sleep(step.takes)
				}
				return i + 1, step.err()
			})
			f.end = now()
			if v != len(f.starts) {
				problem = fmt.Sprintf("result of attempt %d of %d", v, len(f.starts))
			}
			done <- err
		}()
		synctest.Wait()
		advance(time.Second)
		synctest.Wait()
		select {
		case err := <-done:
			e, ok := errors.AsType[*retry.Error](err)
			switch {
			case err == nil:
				f.attempts = -1
			case !ok || e != err:
				problem = fmt.Sprintf("error %#v", err)
			default:
				f.attempts, f.reason = e.Attempts, e.Reason
				if len(f.starts) > 0 && !errors.Is(err, errA) {
					problem = fmt.Sprintf("error %v has lost the last failure", err)
				}
				if errors.Is(e.Reason, context.DeadlineExceeded) {
					f.reason = context.DeadlineExceeded
				}
			}
		default:
			problem = "no end"
			cancel(nil)
			synctest.Wait()
		}
	})
	return f, problem
}

// Any script at all comes out as the rules say, to the nanosecond.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		want := s.reference()
		got, problem := s.perform(t)
		if want.reason == nil {
			want.attempts = -1 // a success does not tell
		}
		if problem != "" || got.end != want.end || got.attempts != want.attempts || got.reason != want.reason ||
			!slices.Equal(got.starts, want.starts) || !slices.Equal(got.events, want.events) {
			rt.Fatalf("%+v\ngot  %v\nwant %v\n%s", s, got, want, problem)
		}
	})
}
