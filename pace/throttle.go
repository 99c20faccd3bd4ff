package pace

import (
	"context"

	"github.com/escapement-go/escapement/internal/misuse"
	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
)

// Throttle returns a channel with the values of in, in order, at no more than the given rate. Use it
// to slow a channel down where no tokens are needed.
//
// # The rate
//
// The rate holds for the instants at which values are received. So values don't pile up for a slow
// reader, beyond the Burst of the options.
//
// For a reader that already waits, it holds for the instants at which Throttle sees that a value is
// due. If the system stops Throttle before it has sent the value, the next value can follow sooner.
//
// # The end
//
// The channel is closed when in is closed and its last value has been received, or when ctx ends. To
// tell the two apart, look at ctx. When ctx ends, at most one value taken from in is lost. Read the
// channel to the end or end ctx: otherwise the goroutine behind it stays.
//
// Throttle panics on a nil ctx, on the zero Rate, on a negative burst and on an unknown precision.
func Throttle[T any](ctx context.Context, in <-chan T, r Rate, o *Options) <-chan T {
	if ctx == nil {
		panic("pace: Throttle: ctx must not be nil")
	}
	if o == nil {
		o = &Options{}
	}
	misuse.Options("pace: Throttle", r.Valid(), o.Burst, int(o.Precision))
	clk := timing.New(o.Clock)
	state := schedule.New(int64(r.Count()), int64(r.Span()), o.Burst, int64(o.Slack))
	out := make(chan T)
	t := timing.NewTimer(clk)
	t.Tune(timing.Precision(o.Precision), int64(r.Interval()), state.Slack())
	go throttle(ctx, in, out, clk, &state, t)
	return out
}

func throttle[T any](ctx context.Context, in <-chan T, out chan<- T, clk *timing.Clock, state *schedule.Schedule, t *timing.Timer) {
	defer close(out)
	defer t.Stop()
	for {
		var v T
		var ok bool
		select {
		case v, ok = <-in:
		case <-ctx.Done():
			return
		}
		// A context that is done wins over a value that is there.
		if !ok || timing.Ended(ctx) != nil {
			return
		}
		now := clk.Now()
		since := state.Arrive(now)
		due := state.Due(since, 0, 1)
		for due > now {
			t.Set(now, due)
			select {
			case <-t.C:
				t.Rang()
			case <-ctx.Done():
				return
			}
			now = clk.Now()
		}
		t.Stop()
		select {
		case out <- v:
			state.Take(now, since, 1)
			continue
		default:
		}
		select {
		case out <- v:
			now = clk.Now()
			state.Take(now, state.Arrive(now), 1)
		case <-ctx.Done():
			return
		}
	}
}
