package otelgate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/otelgate"
	"github.com/escapement-go/escapement/pace"
)

// Two calls find a slot, and one does not. What the SDK collects of it:
func ExampleRegister() {
	var set observe.Set
	slots := gate.Named("slots", gate.NewConcurrency(2))
	gate.Observe(slots, set.AddGate(slots).Observer()) // counts the throttles, too

	reader := sdkmetric.NewManualReader() // a program has a PeriodicReader with an exporter
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	registration, err := otelgate.Register(&set, provider)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer registration.Unregister()

	pass, _ := slots.TryEnter(1)
	slots.TryEnter(1)
	slots.TryEnter(1)
	pass.Leave(gate.Throttled(0, nil))

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && sum.IsMonotonic && len(sum.DataPoints) > 0 && sum.DataPoints[0].Value > 0 {
			name, _ := sum.DataPoints[0].Attributes.Value("escapement.gate.name")
			fmt.Println(m.Name, name.AsString(), sum.DataPoints[0].Value, m.Unit)
		}
	}
	// Output:
	// escapement.gate.granted slots 2 {entry}
	// escapement.gate.refused slots 1 {entry}
	// escapement.gate.throttled slots 1 {entry}
}

// Three calls of a trace pass a gate of 10/s. The first one does not wait, so it has no span.
func ExampleTrace() {
	spans := tracetest.NewSpanRecorder() // a program has a batcher with an exporter
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	mock := clock.NewMock()
	api := gate.Named("api", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: mock}))
	limit := otelgate.Trace(api, &otelgate.TraceOptions{Provider: provider, Clock: mock})

	ctx, call := provider.Tracer("example").Start(context.Background(), "call")
	done := make(chan error)
	for range 3 {
		go func() {
			done <- gate.Do(ctx, limit, 1, func(context.Context) error { return nil })
		}()
	}
	for api.Stats().Granted+uint64(api.Stats().Waiting) < 3 {
		time.Sleep(time.Millisecond) // until all have come
	}
	for range 3 {
		mock.Add(100 * time.Millisecond)
		if err := <-done; err != nil {
			fmt.Println(err)
		}
	}
	call.End()
	for _, s := range spans.Ended()[:2] {
		fmt.Println(s.Name(), s.Attributes()[0].Value.AsString(), s.EndTime().Sub(s.StartTime()))
	}
	// Output:
	// wait at gate api 100ms
	// wait at gate api 200ms
}
