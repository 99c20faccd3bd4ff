package promgate_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/promgate"
)

// Two calls find a slot, and one does not. What a Prometheus server gets of it:
func ExampleNew() {
	var set observe.Set
	slots := gate.Named("slots", gate.NewConcurrency(2))
	gate.Observe(slots, set.AddGate(slots).Observer()) // counts the throttles, too

	metrics := prometheus.NewRegistry()
	metrics.MustRegister(promgate.New(&set))
	handler := promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}) // mount it as /metrics

	pass, _ := slots.TryEnter(1)
	slots.TryEnter(1)
	slots.TryEnter(1)
	pass.Leave(gate.Throttled(0, nil))

	page := httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.Contains(line, "_total{") && !strings.Contains(line, " 0\n") {
			fmt.Print(line)
		}
	}
	// Output:
	// escapement_gate_granted_total{gate="slots"} 2
	// escapement_gate_refused_total{gate="slots"} 1
	// escapement_gate_throttled_total{gate="slots"} 1
}
