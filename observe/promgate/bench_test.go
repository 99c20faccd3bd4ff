package promgate_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/promgate"
	"github.com/escapement-go/escapement/pace"
)

// A scrape, as text, of 1,000 gates, and of a Keyed with 10,000 keys of which ten are shown one by one.
func BenchmarkScrape(b *testing.B) {
	scrape := func(b *testing.B, set *observe.Set) {
		reg := prometheus.NewRegistry()
		reg.MustRegister(promgate.New(set))
		handler := promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
		b.ReportAllocs()
		for b.Loop() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			b.ReportMetric(float64(w.Body.Len()), "B/scrape")
		}
	}
	b.Run("gates=1000", func(b *testing.B) {
		var set observe.Set
		for i := range 1000 {
			g := gate.Named(fmt.Sprint("gate ", i), gate.NewRate(pace.PerSecond(100), nil))
			gate.Observe(g, set.AddGate(g).Observer())
		}
		scrape(b, &set)
	})
	b.Run("keys=10000", func(b *testing.B) {
		var set observe.Set
		k := gate.NewKeyed(func(int) gate.Gate { return gate.NewRate(pace.PerSecond(100), nil) }, &gate.KeyedOptions{Idle: time.Hour})
		observe.AddKeyed(&set, k, 10)
		for key := range 10_000 {
			k.TryEnter(key, 1)
		}
		scrape(b, &set)
		if k.Len() != 10_000 {
			b.Errorf("%d keys are left", k.Len())
		}
	})
}
