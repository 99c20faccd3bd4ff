package promgate_test

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/observe/promgate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// everything has each metric that there is.
func everything() *observe.Set {
	var set observe.Set
	slots := gate.Named("slots", gate.NewConcurrency(1))
	rate := gate.Named("rate", gate.NewRate(pace.PerSecond(1), nil))
	gate.Observe(slots, set.AddGate(slots).Observer())
	set.AddGate(rate)
	keyed := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{Name: "keyed"})
	keyed.TryEnter("key", 1)
	keyed.Observe(observe.AddKeyed(&set, keyed, 1).Observer())
	jobs := &group.Group{}
	jobs.SetLimit(1)
	set.AddGroup(jobs)
	set.AddMeter(&group.Meter{Name: "stage"})
	set.AddPolicy(&retry.Policy{Counter: &retry.Counter{Name: "policy"}, Budget: &retry.Budget{}})
	return &set
}

// The metrics are as Prometheus wants them: names, units, help texts, and descriptions of all that is sent.
func TestLint(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(promgate.New(everything()))
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Each metric that is described is sent by some thing, and is in the documentation's families.
func TestEachMetricIsSent(t *testing.T) {
	sent := scraped(t, everything())
	descs := make(chan *prometheus.Desc, 1000)
	promgate.New(everything()).Describe(descs)
	close(descs)
	n := 0
	for d := range descs {
		n++
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		if sent[name] == nil {
			t.Errorf("%s is never sent", name)
		}
		delete(sent, name)
	}
	if len(sent) > 0 || n == 0 {
		t.Errorf("of %d, not described: %v", n, sent)
	}
}

// Names and keys are any text, and come back from a scrape as the snapshot has them.
func TestHostileNames(t *testing.T) {
	hostile := []string{"<script>", "\xff\xfe", "\xfd\xfe", "a\nb", "a\r\nb", "a\x00b", `a"b\`, "{}=,", "", " ", "\u2028\u202e", strings.Repeat("é", 5000), "same", "same"}
	var set observe.Set
	keyed := gate.NewKeyed(func(any) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{Name: "k\xff\n"})
	observe.AddKeyed(&set, keyed, 100)
	for _, name := range hostile {
		set.AddGate(gate.Named(name, gate.NewConcurrency(1)))
		jobs := &group.Group{}
		jobs.SetName(name)
		set.AddGroup(jobs)
		set.AddMeter(&group.Meter{Name: name})
		set.AddPolicy(&retry.Counter{Name: name})
		keyed.TryEnter(name, 1)
	}
	keyed.TryEnter(1, 1)
	keyed.TryEnter("1", 1)
	got := map[string]map[string]bool{}
	for name, f := range scraped(t, &set) {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "key" || name != "escapement_key_granted_total" {
					if got[name] == nil {
						got[name] = map[string]bool{}
					}
					got[name][l.GetValue()] = true
				}
				if !utf8.ValidString(l.GetValue()) || len(l.GetValue()) > 220 {
					t.Errorf("%s: label %q", name, l.GetValue())
				}
			}
		}
	}
	s := set.Snapshot()
	for _, g := range s.Gates {
		if !got["escapement_gate_granted_total"][g.Name] {
			t.Errorf("gate %q is not there", g.Name)
		}
	}
	for _, key := range s.Keyed[0].Top {
		if !got["escapement_key_granted_total"][key.Key] {
			t.Errorf("key %q is not there", key.Key)
		}
	}
	if n := len(got["escapement_gate_granted_total"]); n != len(hostile) {
		t.Errorf("%d gates, want %d", n, len(hostile))
	}
	if n := len(s.Keyed[0].Top); n != keyed.Len() || n != len(hostile)+1 {
		t.Errorf("%d keys", n)
	}
}

// What is added later is collected, what is removed is not.
func TestSetChanges(t *testing.T) {
	var set observe.Set
	c := promgate.New(&set)
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d metrics of an empty Set", n)
	}
	item := set.AddGate(gate.NewConcurrency(1))
	if n := testutil.CollectAndCount(c, "escapement_gate_granted_total"); n != 1 {
		t.Errorf("%d gates, want 1", n)
	}
	item.Remove()
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d metrics after Remove", n)
	}
}

// Any number of scrapes at once are each complete, while entries go on and the Set changes.
func TestConcurrentScrapes(t *testing.T) {
	var set observe.Set
	slots := gate.Named("slots", gate.NewConcurrency(1))
	gate.Observe(slots, set.AddGate(slots).Observer())
	keyed := gate.NewKeyed(func(int) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{Name: "keyed", MaxKeys: 10})
	observe.AddKeyed(&set, keyed, 3)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(promgate.New(&set))
	over := make(chan struct{})
	var work, scrapes sync.WaitGroup
	work.Go(func() {
		for i := 0; ; i++ {
			p, _ := slots.TryEnter(1)
			p.Leave(gate.Throttled(0, nil))
			p, _ = keyed.TryEnter(i%20, 1)
			p.Leave(nil)
			gate.Named("slots", slots)
			set.AddGate(gate.Named("slots", gate.NewConcurrency(1))).Remove()
			select {
			case <-over:
				return
			default:
			}
		}
	})
	for range 4 {
		scrapes.Go(func() {
			before := map[string]float64{}
			for range 100 {
				families, err := reg.Gather()
				if err != nil {
					t.Error(err)
				}
				for _, f := range families {
					name := f.GetName()
					if !strings.HasSuffix(name, "_total") || strings.HasPrefix(name, "escapement_key_") && f.Metric[0].Label[2].GetValue() == "top" {
						continue
					}
					v := f.Metric[0].Counter.GetValue()
					if f.Metric[0].Label[0].GetValue() == "slots" || strings.HasPrefix(name, "escapement_keyed") {
						if v < before[name] {
							t.Errorf("%s fell from %v to %v", name, before[name], v)
						}
						before[name] = v
					}
				}
			}
		})
	}
	scrapes.Wait()
	close(over)
	work.Wait()
}

func TestMisuse(t *testing.T) {
	defer func() {
		if got := recover(); got != "promgate: New: the Set must not be nil" {
			t.Error(got)
		}
	}()
	promgate.New(nil)
}
