package otelgate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/gate/gatetest"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/observe/otelgate"
	"github.com/escapement-go/escapement/pace"
)

// spans returns the spans so far, but not those of callers, each in one line.
func spans(b *bubble.B, began time.Time, r *tracetest.SpanRecorder) (all []string) {
	for _, s := range r.Ended() {
		if s.Name() == "call" {
			continue
		}
		line := fmt.Sprintf("%s %v-%v", s.Name(), s.StartTime().Sub(began), s.EndTime().Sub(began))
		for _, a := range s.Attributes() {
			line += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
		}
		if s.Status().Code == codes.Error {
			line += ": " + s.Status().Description
		}
		if !s.Parent().IsValid() {
			b.Errorf("%s has no parent", line)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

// Entries that wait have a span of exactly that time, and so do those that fail. Others have none.
func TestTrace(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		r := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r))
		plain := gate.Named("api", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock(), Burst: 2}))
		g := otelgate.Trace(plain, &otelgate.TraceOptions{Provider: provider, Clock: b.Clock()})
		began := b.Time()
		call := func(ctx context.Context, cost int) {
			ctx, span := provider.Tracer("test").Start(ctx, "call")
			go func() {
				defer span.End()
				p, err := g.Enter(ctx, cost)
				if err == nil {
					p.Leave(nil)
				}
			}()
			b.Settle()
		}
		ctx, cancel := context.WithCancel(context.Background())
		call(ctx, 1)
		call(ctx, 1)
		call(ctx, 2) // at 200 ms
		call(ctx, 1) // gives up at 150 ms
		call(context.Background(), 3)
		short, end := b.WithTimeout(10 * time.Millisecond)
		defer end()
		call(short, 1)
		if _, ok := g.TryEnter(1); ok {
			b.Error("TryEnter found room")
		}
		go func() { _, _ = g.Enter(ctx, 1) }() // no span in its context
		b.AdvanceTo(150 * time.Millisecond)
		if got := spans(b, began, r); len(got) != 2 {
			b.Errorf("%q while they wait", got)
		}
		b.AdvanceTo(220 * time.Millisecond)
		cancel()
		b.AdvanceTo(time.Second)
		want := []string{
			"wait at gate 0s-0s escapement.gate.name=api escapement.gate.cost=1 error.type=*gate.DeadlineError: ",
			"wait at gate 0s-0s escapement.gate.name=api escapement.gate.cost=3 error.type=*gate.CapacityError: ",
			"wait at gate 0s-200ms escapement.gate.name=api escapement.gate.cost=2",
			"wait at gate 0s-220ms escapement.gate.name=api escapement.gate.cost=1 error.type=context.Canceled: context canceled",
		}
		got := spans(b, began, r)
		for i := range min(len(got), 2) {
			got[i], _, _ = strings.Cut(got[i], "Error: ")
			got[i] += "Error: "
		}
		if !slices.Equal(got, want) {
			b.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// AtLeast is the shortest wait with a span.
func TestAtLeast(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for least, want := range map[time.Duration]int{0: 3, 2 * time.Millisecond: 2, 2*time.Millisecond + 1: 1, -1: 5} {
			r := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r))
			g := otelgate.Trace(gate.NewRate(pace.PerSecond(1000), &gate.RateOptions{Clock: b.Clock(), Burst: 2}), &otelgate.TraceOptions{Provider: provider, Clock: b.Clock(), AtLeast: least})
			ctx, span := provider.Tracer("test").Start(context.Background(), "call")
			for range 5 {
				go func() { _, _ = g.Enter(ctx, 1) }()
			}
			b.Advance(10 * time.Millisecond)
			if got := spans(b, b.Time(), r); len(got) != want {
				b.Errorf("%v: %d spans, want %d", least, len(got), want)
			}
			span.End()
		}
	})
}

// A sampled-out call has no span for its wait.
func TestNotRecorded(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		r := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r), sdktrace.WithSampler(sdktrace.NeverSample()))
		g := otelgate.Trace(gate.NewConcurrency(1), &otelgate.TraceOptions{Provider: provider, AtLeast: -1})
		ctx, span := provider.Tracer("test").Start(context.Background(), "call")
		defer span.End()
		if _, err := g.Enter(ctx, 1); err != nil || len(r.Started()) != 0 {
			b.Errorf("%v, %d spans", err, len(r.Started()))
		}
	})
}

// What is traced keeps its name, its plan, its statistics, its observer, its costs, and whether it can be held.
func TestTracedIsTheGate(t *testing.T) {
	slots, requests := gate.NewConcurrency(3), gate.NewWindow(9, time.Minute, nil)
	all := gate.Named("all", gate.All(slots, requests))
	g := otelgate.Trace(all, nil)
	events := 0
	if !gate.Observe(g, gate.ObserverFunc(func(gate.Event) { events++ })) {
		t.Error("it can't be observed")
	}
	p, err := gate.WithCost(g, 2, 5).Enter(context.Background(), 1)
	if err != nil || slots.Stats().InUse != 2 || requests.Stats().InUse != 5 {
		t.Errorf("%v: %d slots, %d requests", err, slots.Stats().InUse, requests.Stats().InUse)
	}
	if _, ok := gate.WithCost(g, 2, 1).TryEnter(1); ok {
		t.Error("two more slots of three")
	}
	p.Leave(nil)
	plan, _ := gate.PlanOf(g)
	stats, _ := gate.StatsOf(g)
	if gate.NameOf(gate.Named("other", g)) != "other" || gate.NameOf(all) != "other" || plan.Kind != "all" || stats != all.Stats() || stats.Granted != 1 || events != 1 {
		t.Errorf("%s %+v %+v, %d events", gate.NameOf(g), plan, stats, events)
	}
	if !gate.Hold(g, time.Hour) || all.Stats().HeldFor == 0 || !gate.Resume(g) || all.Stats().HeldFor != 0 {
		t.Error("it can't be held and resumed")
	}
	if gate.Hold(otelgate.Trace(slots, nil), time.Hour) || gate.Resume(otelgate.Trace(slots, nil)) {
		t.Error("a Concurrency can be held")
	}
}

// A group's jobs have spans under the one of the group's context.
func TestTraceOfJobs(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		r := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r))
		ctx, span := provider.Tracer("test").Start(context.Background(), "call")
		g, _ := group.WithContext(ctx)
		g.SetGate(otelgate.Trace(gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}), &otelgate.TraceOptions{Provider: provider, Clock: b.Clock()}))
		for range 4 {
			g.Go(func() error { return nil })
		}
		b.Advance(time.Second)
		if err := g.Wait(); err != nil || len(spans(b, b.Time(), r)) != 3 {
			b.Errorf("%v, %q", err, spans(b, b.Time(), r))
		}
		for _, s := range r.Ended() {
			if s.Parent().SpanID() != span.SpanContext().SpanID() {
				b.Errorf("%s has another parent", s.Name())
			}
		}
		span.End()
	})
}

func TestTraceMisuse(t *testing.T) {
	var none *gate.Rate
	for _, g := range []gate.Gate{nil, none} {
		func() {
			defer func() {
				if got := recover(); got != "otelgate: Trace: the gate must not be nil" {
					t.Error(got)
				}
			}()
			otelgate.Trace(g, nil)
		}()
	}
}

// inSpan enters a traced gate as part of a call that is recorded.
type inSpan struct {
	gate.Gate
	provider *sdktrace.TracerProvider
}

func (g inSpan) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	if ctx == nil {
		return g.Gate.Enter(ctx, cost)
	}
	ctx, span := g.provider.Tracer("test").Start(ctx, "call")
	defer span.End()
	return g.Gate.Enter(ctx, cost)
}

func (g inSpan) Stats() gate.Stats {
	s, _ := gate.StatsOf(g.Gate)
	return s
}
func (g inSpan) Hold(d time.Duration) { gate.Hold(g.Gate, d) }
func (g inSpan) Resume()              { gate.Resume(g.Gate) }

// What is traced owes what every gate owes.
func TestConformance(t *testing.T) {
	for _, check := range gatetest.Checks() {
		t.Run(check.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				check.Run(t, gatetest.Subject{
					New: func(testing.TB) gate.Gate {
						provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(tracetest.NewSpanRecorder()))
						g := gate.NewRate(pace.PerSecond(20), &gate.RateOptions{Burst: 4})
						return inSpan{otelgate.Trace(g, &otelgate.TraceOptions{Provider: provider, AtLeast: -1}), provider}
					},
					Capacity: 4,
					Back:     50 * time.Millisecond,
					Foresees: true,
					Most:     func(w time.Duration) int { return 4 + int(w/(50*time.Millisecond)) },
					Advance: func(d time.Duration) {
						synctest.Wait()
						time.Sleep(d)
						synctest.Wait()
					},
				})
			})
		})
	}
}

// The cost in the span of an entry with a cost for each gate is the highest of them.
func TestTraceOfCosts(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		r := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r))
		all := gate.Named("all", gate.All(gate.NewConcurrency(3), gate.NewConcurrency(9)))
		g := otelgate.Trace(all, &otelgate.TraceOptions{Provider: provider, Clock: b.Clock(), AtLeast: -1})
		ctx, span := provider.Tracer("test").Start(context.Background(), "call")
		defer span.End()
		if _, err := gate.WithCost(g, 2, 7).Enter(ctx, 1); err != nil {
			b.Error(err)
		}
		if got := spans(b, b.Time(), r); len(got) != 1 || !strings.HasSuffix(got[0], "escapement.gate.cost=7") {
			b.Errorf("%q", got)
		}
	})
}
