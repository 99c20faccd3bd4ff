package otelgate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/otelgate"
	"github.com/escapement-go/escapement/pace"
)

// A collection of 1,000 gates, and of a Keyed with 10,000 keys of which ten are shown one by one.
func BenchmarkCollect(b *testing.B) {
	collect := func(b *testing.B, set *observe.Set) {
		r := sdkmetric.NewManualReader()
		if _, err := otelgate.Register(set, sdkmetric.NewMeterProvider(sdkmetric.WithReader(r))); err != nil {
			b.Fatal(err)
		}
		var all metricdata.ResourceMetrics
		b.ReportAllocs()
		for b.Loop() {
			if err := r.Collect(context.Background(), &all); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("gates=1000", func(b *testing.B) {
		var set observe.Set
		for i := range 1000 {
			g := gate.Named(fmt.Sprint("gate ", i), gate.NewRate(pace.PerSecond(100), nil))
			gate.Observe(g, set.AddGate(g).Observer())
		}
		collect(b, &set)
	})
	b.Run("keys=10000", func(b *testing.B) {
		var set observe.Set
		k := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(pace.PerSecond(100), nil) }, &gate.KeyedOptions{Idle: time.Hour})
		observe.AddKeyed(&set, k, 10)
		for key := range 10_000 {
			k.TryEnter(key, 1)
		}
		collect(b, &set)
	})
}

// What Trace adds to an entry that finds room, in a call that is recorded and in one that is not.
func BenchmarkTrace(b *testing.B) {
	provider := sdktrace.NewTracerProvider()
	plain := gate.NewRate(pace.Unlimited(), nil)
	recorded, span := provider.Tracer("test").Start(context.Background(), "call")
	defer span.End()
	for _, c := range []struct {
		name string
		g    gate.Gate
		ctx  context.Context
	}{
		{"plain", plain, context.Background()},
		{"traced/call=none", otelgate.Trace(plain, &otelgate.TraceOptions{Provider: provider}), context.Background()},
		{"traced/call=recorded", otelgate.Trace(plain, &otelgate.TraceOptions{Provider: provider}), recorded},
		{"traced/call=recorded/span", otelgate.Trace(plain, &otelgate.TraceOptions{Provider: provider, AtLeast: -1}), recorded},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, _ := c.g.Enter(c.ctx, 1)
				p.Leave(nil)
			}
		})
	}
}
