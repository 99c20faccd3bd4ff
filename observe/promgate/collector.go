package promgate

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escapement-go/escapement/observe"
)

// New returns a [prometheus.Collector] of all that is in the Set. What is added to the Set later is collected, too. It can
// be registered at several registries, and collected by several goroutines at once. New panics if set is nil.
func New(set *observe.Set) prometheus.Collector {
	if set == nil {
		panic("promgate: New: the Set must not be nil")
	}
	return &collector{set}
}

type collector struct{ set *observe.Set }

// Describe implements [prometheus.Collector].
func (*collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range all.descs {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. All metrics of a gate are of one instant.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.set.Snapshot()
	for _, g := range s.Gates {
		if g.Plan.Kind != "" {
			to <- prometheus.MustNewConstMetric(all.info, prometheus.GaugeValue, 1, g.Name, g.Plan.Kind)
		}
		all.gate.send(to, g.Stats, g.Name)
		all.plan.send(to, g.Plan, g.Name)
		if g.Events != nil {
			all.events.send(to, *g.Events, g.Name)
		}
	}
	for _, k := range s.Keyed {
		all.keyed.send(to, k, k.Name)
		for _, key := range k.Top {
			all.key.send(to, key.Stats, k.Name, "top", key.Key)
			all.keyTop.send(to, key.Stats, k.Name, "top", key.Key)
		}
		all.key.send(to, k.Rest, k.Name, "rest", "")
		if k.Events != nil {
			all.keyedEvents.send(to, *k.Events, k.Name)
		}
	}
	for _, g := range s.Groups {
		all.group.send(to, g, g.Name)
		sendState(to, all.jobs, g.Queued, g.Name, "queued")
		sendState(to, all.jobs, g.AtGate, g.Name, "at_gate")
		sendState(to, all.jobs, g.Running, g.Name, "running")
	}
	for _, m := range s.Stages {
		all.stage.send(to, m.Stats, m.Name)
		sendState(to, all.workers, m.Stats.Idle, m.Name, "idle")
		sendState(to, all.workers, m.Stats.AtGate, m.Name, "at_gate")
		sendState(to, all.workers, m.Stats.InFlight, m.Name, "in_flight")
		sendState(to, all.workers, m.Stats.Blocked, m.Name, "blocked")
	}
	for _, p := range s.Policies {
		all.retry.send(to, p, p.Name)
	}
}

func sendState(to chan<- prometheus.Metric, d *prometheus.Desc, n int, name, state string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), name, state)
}

// family is the metrics of one kind of thing. The value of each comes from a T.
type family[T any] []metric[T]

type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64 // NaN: there is none
}

func (f family[T]) send(to chan<- prometheus.Metric, from T, labels ...string) {
	for _, m := range f {
		if v := m.value(from); !math.IsNaN(v) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
		}
	}
}
