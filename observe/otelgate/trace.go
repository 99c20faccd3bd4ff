package otelgate

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/benbjohnson/clock"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/escapement-go/escapement/gate"
)

// TraceOptions are the settings of [Trace]. Nil, as well as the zero value, means the defaults.
type TraceOptions struct {
	// Provider makes the spans. Nil means the global provider.
	Provider trace.TracerProvider

	// AtLeast is the shortest wait that gets a span. 0 means 1 ms. Negative means that each entry gets one, even if it
	// does not wait.
	AtLeast time.Duration

	// Clock is where the instants of spans come from: set it to that of the gate, if that has one. Nil means the real
	// clock.
	Clock clock.Clock
}

// Trace returns g with a span for each entry that waits: in a trace it shows how much of a call was the limit's.
// Use it where the gate is entered, such as [group.Group.SetGate] or [retry.Policy]. In front of an [gate.All], trace
// that and not its members: an All enters a traced member last, as a gate from elsewhere.
//
// The span "wait at gate" is a child of that in the context of Enter. It begins when the entry came, and ends when the
// entry was admitted or refused, or its context ended. It has the attributes escapement.gate.name and escapement.gate.cost. An entry that was
// refused or abandoned gets a span however short it has waited, with error.type. A context without a span that is
// recorded gets none, and neither does TryEnter: both then cost nothing more.
//
// The passes are those of g, and so are its name, its plan, its Stats and its observer. Hold and Resume of the result do
// what they do for g. EnterEach works as that of g. [gate.Explain] is for g itself.
//
// Trace panics if g is nil.
func Trace(g gate.Gate, o *TraceOptions) gate.Gate {
	if o == nil {
		o = &TraceOptions{}
	}
	if v := reflect.ValueOf(g); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("otelgate: Trace: the gate must not be nil")
	}
	t := traced{of: g, clk: o.Clock, least: o.AtLeast}
	provider := o.Provider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t.tracer = provider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	if t.clk == nil {
		t.clk = clock.New()
	}
	if t.least == 0 {
		t.least = time.Millisecond
	}
	if gate.Hold(g, 0) { // which tells whether it can be held
		return held{t}
	}
	return t
}

// traced is a gate with spans.
type traced struct {
	of     gate.Gate
	tracer trace.Tracer
	clk    clock.Clock
	least  time.Duration
}

// held is one that can be held.
type held struct{ traced }

func (t held) Hold(d time.Duration) { gate.Hold(t.of, d) }
func (t held) Resume()              { gate.Resume(t.of) }

func (t traced) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	return t.enter(ctx, t.of, cost, cost)
}

func (t traced) EnterEach(ctx context.Context, costs ...int) (gate.Pass, error) {
	return t.enter(ctx, gate.WithCost(t.of, costs...), 1, slices.Max(costs))
}

// enter enters a gate with a cost, and makes the span of an entry of the cost shown.
func (t traced) enter(ctx context.Context, to gate.Gate, cost, shown int) (gate.Pass, error) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return to.Enter(ctx, cost)
	}
	came := t.clk.Now()
	pass, err := to.Enter(ctx, cost)
	now := t.clk.Now()
	if err == nil && now.Sub(came) < t.least {
		return pass, nil
	}
	// It is made now, when it is known that there is one: an entry that finds room pays for two readings of the clock.
	_, span := t.tracer.Start(ctx, "wait at gate", trace.WithTimestamp(came), trace.WithAttributes(
		attribute.String("escapement.gate.name", gate.NameOf(t.of)),
		attribute.Int("escapement.gate.cost", shown),
	))
	if err != nil {
		span.SetAttributes(errorType(err))
		span.SetStatus(codes.Error, err.Error())
	}
	span.End(trace.WithTimestamp(now))
	return pass, err
}

func (t traced) TryEnter(cost int) (gate.Pass, bool) { return t.of.TryEnter(cost) }
func (t traced) TryEnterEach(costs ...int) (gate.Pass, bool) {
	return gate.WithCost(t.of, costs...).TryEnter(1)
}

func (t traced) Name() string                { return gate.NameOf(t.of) }
func (t traced) SetName(name string)         { gate.Named(name, t.of) }
func (t traced) SetObserver(o gate.Observer) { gate.Observe(t.of, o) }
func (t traced) Plan() gate.Plan {
	p, _ := gate.PlanOf(t.of)
	return p
}
func (t traced) Stats() gate.Stats {
	s, _ := gate.StatsOf(t.of)
	return s
}

// errorType returns the error.type of an entry that failed. The two errors of contexts have types that say nothing.
func errorType(err error) attribute.KeyValue {
	switch err {
	case context.Canceled:
		return semconv.ErrorTypeKey.String("context.Canceled")
	case context.DeadlineExceeded:
		return semconv.ErrorTypeKey.String("context.DeadlineExceeded")
	}
	return semconv.ErrorType(err)
}
