package promgate_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/promgate"
)

// scrape returns what a Prometheus server gets of the Set: each metric with its labels, such as
// `gate_waiting{gate="api"}`, without the prefix. Each scrape is parsed by Prometheus's own parser.
func scrape(t testing.TB, set *observe.Set) map[string]float64 {
	t.Helper()
	families := scraped(t, set)
	all := map[string]float64{}
	for name, f := range families {
		name, ours := strings.CutPrefix(name, "escapement_")
		if !ours {
			t.Errorf("%s is not ours", name)
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			key := fmt.Sprintf("%s{%s}", name, strings.Join(labels, ","))
			if _, twice := all[key]; twice {
				t.Errorf("%s is there twice", key)
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				all[key] = m.Counter.GetValue()
			case dto.MetricType_GAUGE:
				all[key] = m.Gauge.GetValue()
			default:
				t.Errorf("%s is a %v", key, f.GetType())
			}
		}
	}
	return all
}

// scraped returns the families of a scrape.
func scraped(t testing.TB, set *observe.Set) map[string]*dto.MetricFamily {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(promgate.New(set))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("the scrape failed: %s", w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// expect compares the metrics of one label with those of a run. What is not named in want must be 0.
func expect(b *bubble.B, got map[string]float64, label string, want map[string]float64) {
	b.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		metric, labels, _ := strings.Cut(name, "{")
		if !strings.Contains(","+labels, ","+label) {
			continue
		}
		rest := strings.TrimSuffix(strings.Trim(strings.ReplaceAll(","+labels, ","+label, ""), ","), "}")
		if rest = strings.Trim(rest, ","); rest != "" {
			metric += " " + rest
		}
		if got[name] != want[metric] {
			b.Errorf("%s: %v, want %v", name, got[name], want[metric])
		}
		delete(want, metric)
	}
	for name, v := range want {
		b.Errorf("%s of %s is not there, want %v", name, label, v)
	}
}
