package otelgate_test

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/otelgate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// everything has each metric that there is.
func everything() *observe.Set {
	var set observe.Set
	slots := gate.Named("slots", gate.NewConcurrency(1))
	gate.Observe(slots, set.AddGate(slots).Observer())
	set.AddGate(gate.NewRate(pace.PerSecond(1), nil))
	keyed := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, nil)
	keyed.TryEnter("key", 1)
	keyed.Observe(observe.AddKeyed(&set, keyed, 1).Observer())
	jobs := &group.Group{}
	jobs.SetLimit(1)
	set.AddGroup(jobs)
	set.AddMeter(&group.Meter{})
	set.AddPolicy(&retry.Policy{Counter: &retry.Counter{}, Budget: &retry.Budget{}})
	return &set
}

// Names, units and instruments are as the semantic conventions want them, and there are no two of one name.
func TestConventions(t *testing.T) {
	metrics := register(t, everything()).metrics()
	seen := map[string]bool{}
	name := regexp.MustCompile(`^escapement(\.[a-z]+(_[a-z]+)*)+$`)
	for _, m := range metrics {
		if !name.MatchString(m.Name) || strings.HasSuffix(m.Name, "_total") || seen[m.Name] {
			t.Errorf("the name %s", m.Name)
		}
		seen[m.Name] = true
		if !regexp.MustCompile(`^(s|\{[a-z]+\}(/s)?)$`).MatchString(m.Unit) {
			t.Errorf("%s: the unit %s", m.Name, m.Unit)
		}
		if !strings.HasSuffix(m.Description, ".") {
			t.Errorf("%s: the description %q", m.Name, m.Description)
		}
		var attrs []metricdata.DataPoint[float64]
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			attrs = floats(d.DataPoints)
		case metricdata.Sum[float64]:
			attrs = d.DataPoints
			if !d.IsMonotonic {
				t.Errorf("%s can fall", m.Name)
			}
		case metricdata.Gauge[float64]:
			attrs = d.DataPoints
		}
		if len(attrs) == 0 {
			t.Errorf("%s has no points", m.Name)
		}
		for _, p := range attrs {
			for _, kv := range p.Attributes.ToSlice() {
				if !name.MatchString(string(kv.Key)) {
					t.Errorf("%s: the attribute %s", m.Name, kv.Key)
				}
				if seen[string(kv.Key)] {
					t.Errorf("%s is an attribute and a metric", kv.Key)
				}
			}
		}
	}
	if len(metrics) < 50 {
		t.Errorf("%d metrics", len(metrics))
	}
}

// Names and keys are any text, and are as in the snapshot.
func TestHostileNames(t *testing.T) {
	var set observe.Set
	keyed := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{Name: "\xffk"})
	observe.AddKeyed(&set, keyed, 9)
	names := []string{"<script>", "\xff", "\xfe", "a\nb", "a\x00b", "", strings.Repeat("x", 10_000), "same", "same"}
	for _, name := range names {
		set.AddGate(gate.Named(name, gate.NewConcurrency(1)))
		keyed.TryEnter(name, 1)
	}
	found := map[string]int{}
	for _, m := range register(t, &set).metrics() {
		if d, ok := m.Data.(metricdata.Sum[int64]); ok && strings.HasSuffix(m.Name, ".granted") {
			for _, p := range d.DataPoints {
				found[m.Name]++
				for _, kv := range p.Attributes.ToSlice() {
					if v := kv.Value.AsString(); !utf8.ValidString(v) || len(v) > 220 {
						t.Errorf("%s of %q", kv.Key, v)
					}
				}
			}
		}
	}
	if found["escapement.gate.granted"] != len(names) || found["escapement.key.granted"] != len(names) { // a key less, and the rest
		t.Errorf("%v", found)
	}
}

// Any number of collections at once, while entries go on and the Set changes.
func TestConcurrentCollections(t *testing.T) {
	var set observe.Set
	slots := gate.Named("slots", gate.NewConcurrency(1))
	set.AddGate(slots)
	keyed := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{MaxKeys: 5})
	observe.AddKeyed(&set, keyed, 2)
	r := register(t, &set)
	over := make(chan struct{})
	var work, watch sync.WaitGroup
	work.Go(func() {
		for i := 0; ; i++ {
			p, _ := slots.TryEnter(1)
			p.Leave(nil)
			p, _ = keyed.TryEnter(i%9, 1)
			p.Leave(nil)
			set.AddGate(gate.Named("slots", gate.NewConcurrency(1))).Remove()
			select {
			case <-over:
				return
			default:
			}
		}
	})
	for range 3 {
		watch.Go(func() {
			before := 0.0
			for range 100 {
				now := r.read()["gate.granted slots"]
				if now < before {
					t.Errorf("%v after %v", now, before)
				}
				before = now
			}
		})
	}
	watch.Wait()
	close(over)
	work.Wait()
}

// After Unregister nothing is collected.
func TestUnregister(t *testing.T) {
	r := sdkmetric.NewManualReader()
	registration, err := otelgate.Register(everything(), sdkmetric.NewMeterProvider(sdkmetric.WithReader(r)))
	if err != nil {
		t.Fatal(err)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := (reader{r, t}).read(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// failing is a provider with a meter that makes no counters.
type failing struct {
	embedded.MeterProvider
	registered *bool
}

type failingMeter struct {
	noop.Meter
	registered *bool
}

var errMeter = errors.New("no counters")

func (f failing) Meter(string, ...metric.MeterOption) metric.Meter {
	return failingMeter{registered: f.registered}
}
func (failingMeter) Int64ObservableCounter(string, ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return nil, errMeter
}
func (f failingMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	*f.registered = true
	return nil, nil
}

// The errors of the provider come back, and nothing is registered then.
func TestProviderFails(t *testing.T) {
	registered := false
	if _, err := otelgate.Register(everything(), failing{registered: &registered}); !errors.Is(err, errMeter) || registered {
		t.Errorf("%v, registered %v", err, registered)
	}
}

// Nil means the global provider.
func TestGlobalProvider(t *testing.T) {
	before := otel.GetMeterProvider()
	defer otel.SetMeterProvider(before)
	r := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(r)))
	if _, err := otelgate.Register(everything(), nil); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil || len(all.ScopeMetrics) != 1 {
		t.Errorf("%v, %d scopes", err, len(all.ScopeMetrics))
	}
}

func TestRegisterMisuse(t *testing.T) {
	defer func() {
		if got := recover(); got != "otelgate: Register: the Set must not be nil" {
			t.Error(got)
		}
	}()
	_, _ = otelgate.Register(nil, nil)
}

// What has no limit has no such figure, and a hold without an end has the longest one.
func TestNoLimit(t *testing.T) {
	var set observe.Set
	free := gate.Named("free", gate.NewRate(pace.Unlimited(), nil))
	set.AddGate(free)
	r := register(t, &set)
	got := r.read()
	if _, limited := got["gate.left free"]; limited || got["gate.rate free"] != 0 {
		t.Errorf("%v", got)
	}
	free.Hold(math.MaxInt64)
	if got := r.read()["gate.held free"]; got != time.Duration(math.MaxInt64).Seconds() {
		t.Errorf("held for %v s", got)
	}
}
