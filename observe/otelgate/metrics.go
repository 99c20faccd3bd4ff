package otelgate

import (
	"context"
	"errors"
	"math"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/retry"
)

// scope is the name of the instrumentation.
const scope = "github.com/escapement-go/escapement/observe/otelgate"

// Register makes instruments for all that is in the Set, from a meter of the provider. Nil means the global provider.
// What is added to the Set later is collected, too. All figures of a gate are of one instant.
//
// Unregister of the result ends that. Register returns the errors of the provider. After an error nothing is registered.
// A second Register of a Set shows everything twice, or is an error, as the provider does it. Register panics if set is
// nil.
func Register(set *observe.Set, provider metric.MeterProvider) (metric.Registration, error) {
	if set == nil {
		panic("otelgate: Register: the Set must not be nil")
	}
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	m := &maker{meter: provider.Meter(scope)}
	all := newInstruments(m)
	if err := errors.Join(m.errs...); err != nil {
		return nil, err
	}
	return m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		all.observe(o, set.Snapshot())
		return nil
	}, m.made...)
}

// maker makes instruments.
type maker struct {
	meter metric.Meter
	made  []metric.Observable
	errs  []error
}

// instrument observes a figure of a T.
type instrument[T any] func(metric.Observer, T, metric.MeasurementOption)

// family is the instruments for one kind of thing.
type family[T any] []instrument[T]

func (f family[T]) observe(o metric.Observer, from T, labels ...attribute.KeyValue) {
	with := metric.WithAttributeSet(attribute.NewSet(labels...))
	for _, i := range f {
		i(o, from, with)
	}
}

// count makes a counter.
func count[T any](m *maker, name, unit, help string, value func(T) uint64) instrument[T] {
	i, err := m.meter.Int64ObservableCounter("escapement."+name, metric.WithUnit(unit), metric.WithDescription(help))
	m.add(i, err)
	return func(o metric.Observer, from T, with metric.MeasurementOption) {
		o.ObserveInt64(i, int64(min(value(from), math.MaxInt64)), with)
	}
}

// timed makes a counter of seconds.
func timed[T any](m *maker, name, help string, value func(T) time.Duration) instrument[T] {
	i, err := m.meter.Float64ObservableCounter("escapement."+name, metric.WithUnit("s"), metric.WithDescription(help))
	m.add(i, err)
	return func(o metric.Observer, from T, with metric.MeasurementOption) {
		o.ObserveFloat64(i, value(from).Seconds(), with)
	}
}

// number makes an instrument for how many there are now, which can be added up.
func number[T any](m *maker, name, unit, help string, value func(T) int) instrument[T] {
	i, err := m.meter.Int64ObservableUpDownCounter("escapement."+name, metric.WithUnit(unit), metric.WithDescription(help))
	m.add(i, err)
	return func(o metric.Observer, from T, with metric.MeasurementOption) {
		o.ObserveInt64(i, int64(value(from)), with)
	}
}

// level makes a gauge. If value returns false, it has no value.
func level[T any](m *maker, name, unit, help string, value func(T) (float64, bool)) instrument[T] {
	i, err := m.meter.Float64ObservableGauge("escapement."+name, metric.WithUnit(unit), metric.WithDescription(help))
	m.add(i, err)
	return func(o metric.Observer, from T, with metric.MeasurementOption) {
		if v, ok := value(from); ok {
			o.ObserveFloat64(i, v, with)
		}
	}
}

func (m *maker) add(i metric.Observable, err error) {
	m.made, m.errs = append(m.made, i), append(m.errs, err)
}

type instruments struct {
	gate, keyed, key    family[gate.Stats]
	keyTop              family[gate.Stats]
	plan                family[gate.Plan]
	keys                family[observe.Keyed]
	events, keyedEvents family[observe.Events]
	group               family[group.JobStats]
	stage               family[group.Stats]
	jobs, workers       family[int]
	retry               family[retry.Stats]
}

func newInstruments(m *maker) *instruments {
	return &instruments{
		gate:   append(stats(m, "gate"), level(m, "gate.left", "{token}", "The highest cost that would be admitted now if no entry waited.", left)),
		plan:   plans(m),
		events: events(m, "gate"),
		keyed:  append(stats(m, "keyed"), count(m, "keyed.no_room", "{entry}", "Entries that were refused because there was no room for their key.", func(s gate.Stats) uint64 { return s.NoRoom })),
		keys:   family[observe.Keyed]{number(m, "keyed.keys", "{key}", "Keys that are remembered.", func(k observe.Keyed) int { return k.Keys })},
		key:    stats(m, "key"),
		keyTop: family[gate.Stats]{level(m, "key.left", "{token}", "The highest cost that the key would admit now if no entry waited.", left)},

		keyedEvents: events(m, "keyed"),
		group: family[group.JobStats]{
			count(m, "group.started", "{job}", "Jobs that the group was given.", func(s group.JobStats) uint64 { return s.Started }),
			count(m, "group.done", "{job}", "Jobs that have ended, in any way.", func(s group.JobStats) uint64 { return s.Done }),
			count(m, "group.failed", "{job}", "Jobs that returned an error, or were refused by the gate.", func(s group.JobStats) uint64 { return s.Failed }),
			count(m, "group.skipped", "{job}", "Jobs that never ran, because the context ended.", func(s group.JobStats) uint64 { return s.Skipped }),
			level(m, "group.limit", "{job}", "Jobs that may run at once.", func(s group.JobStats) (float64, bool) { return float64(s.Limit), s.Limit >= 0 }),
		},
		jobs: family[int]{number(m, "group.jobs", "{job}", "Jobs, by what they do now.", func(n int) int { return n })},
		stage: family[group.Stats]{
			count(m, "stage.items", "{item}", "Items that the stage has taken.", func(s group.Stats) uint64 { return s.In }),
			count(m, "stage.results", "{item}", "Results that the stage has sent.", func(s group.Stats) uint64 { return s.Out }),
			count(m, "stage.errors", "{item}", "Items with an error.", func(s group.Stats) uint64 { return s.Errors }),
		},
		workers: family[int]{number(m, "stage.workers", "{worker}", "Workers of the stage, by what they do now.", func(n int) int { return n })},
		retry: family[retry.Stats]{
			count(m, "retry.calls", "{call}", "Calls that have begun.", func(s retry.Stats) uint64 { return s.Calls }),
			count(m, "retry.calls.succeeded", "{call}", "Calls that returned without an error.", func(s retry.Stats) uint64 { return s.Succeeded }),
			count(m, "retry.calls.failed", "{call}", "Calls that returned an error.", func(s retry.Stats) uint64 { return s.Failed }),
			count(m, "retry.attempts", "{attempt}", "Attempts that have begun.", func(s retry.Stats) uint64 { return s.Attempts }),
			count(m, "retry.retries", "{attempt}", "Attempts that were not the first of their call.", func(s retry.Stats) uint64 { return s.Retries }),
			count(m, "retry.errors", "{attempt}", "Attempts that failed, and were not throttled.", func(s retry.Stats) uint64 { return s.Errors }),
			count(m, "retry.throttled", "{attempt}", "Attempts that were throttled.", func(s retry.Stats) uint64 { return s.Throttles }),
			count(m, "retry.lost", "{attempt}", "Attempts that were lost with their connection, and made again at once.", func(s retry.Stats) uint64 { return s.Lost }),
			count(m, "retry.refused_by_budget", "{call}", "Calls that the budget refused a retry.", func(s retry.Stats) uint64 { return s.NoBudget }),
			count(m, "retry.delays", "{delay}", "Delays between attempts that have begun.", func(s retry.Stats) uint64 { return s.Delays }),
			timed(m, "retry.delay_time", "Sum of the delays that are over.", func(s retry.Stats) time.Duration { return s.Slept }),
			number(m, "retry.at_gate", "{call}", "Calls that wait at the gate.", func(s retry.Stats) int { return s.AtGate }),
			number(m, "retry.in_delay", "{call}", "Calls that are in a delay.", func(s retry.Stats) int { return s.Asleep }),
			level(m, "retry.budget_left", "{attempt}", "Retries that the budget has left.", func(s retry.Stats) (float64, bool) { return float64(s.Budget), s.Budget >= 0 }),
		},
	}
}

// stats makes the instruments for the Stats of gates, of the sum of their keys, or of keys.
func stats(m *maker, of string) family[gate.Stats] {
	seconds := func(value func(gate.Stats) time.Duration) func(gate.Stats) (float64, bool) {
		return func(s gate.Stats) (float64, bool) { return value(s).Seconds(), true }
	}
	return family[gate.Stats]{
		count(m, of+".granted", "{entry}", "Entries that were admitted.", func(s gate.Stats) uint64 { return s.Granted }),
		count(m, of+".refused", "{entry}", "Entries that were refused: by TryEnter, for their cost, or for their deadline.", func(s gate.Stats) uint64 { return s.Refused }),
		count(m, of+".abandoned", "{entry}", "Entries whose context ended before they were admitted.", func(s gate.Stats) uint64 { return s.Abandoned }),
		count(m, of+".forfeited", "{token}", "Tokens that were lost because the system was late by more than the slack.", func(s gate.Stats) uint64 { return s.Forfeited }),
		timed(m, of+".wait_time", "Sum of the waits of entries that were admitted.", func(s gate.Stats) time.Duration { return s.Waited }),
		timed(m, of+".wait_time_in_vain", "Sum of the waits of entries that gave up, or were refused after a wait.", func(s gate.Stats) time.Duration { return s.WaitedInVain }),
		number(m, of+".waiting", "{entry}", "Entries that wait now.", func(s gate.Stats) int { return s.Waiting }),
		number(m, of+".in_use", "{token}", "Slots that are taken, or tokens that a window counts.", func(s gate.Stats) int { return s.InUse }),
		level(m, of+".held", "s", "Time until the hold ends. 0: there is none.", seconds(func(s gate.Stats) time.Duration { return s.HeldFor })),
		level(m, of+".longest_wait", "s", "For how long the entry that came first has been waiting.", seconds(func(s gate.Stats) time.Duration { return s.Longest })),
	}
}

// left is the Left of Stats, if there is a limit.
func left(s gate.Stats) (float64, bool) { return float64(s.Left), s.Left != math.MaxInt }

// plans makes the instruments for the plans of gates.
func plans(m *maker) family[gate.Plan] {
	return family[gate.Plan]{
		level(m, "gate.rate", "{token}/s", "The rate of the plan. Of an adaptive gate: the present one.", func(p gate.Plan) (float64, bool) {
			switch {
			case p.Interval > 0:
				return float64(time.Second) / float64(p.Interval), true
			case p.Span > 0:
				return float64(p.N) / p.Span.Seconds(), p.N > 0
			}
			return 0, false
		}),
		level(m, "gate.slots", "{slot}", "The number of slots, taken or not. Of an adaptive gate: the present one.", func(p gate.Plan) (float64, bool) {
			if p.Limit > 0 {
				return float64(p.Limit), true
			}
			return float64(p.N), p.N > 0 && p.Span == 0
		}),
		level(m, "gate.burst", "{token}", "Tokens that idle time may save up.", func(p gate.Plan) (float64, bool) { return float64(p.Burst), p.Burst > 0 }),
		level(m, "gate.span", "s", "The span that the tokens of the plan are for.", func(p gate.Plan) (float64, bool) { return p.Span.Seconds(), p.Span > 0 }),
	}
}

// events makes the instruments for what an observer counts.
func events(m *maker, of string) family[observe.Events] {
	return family[observe.Events]{
		count(m, of+".waits", "{entry}", "Entries that were admitted after a wait.", func(e observe.Events) uint64 { return e.Waits }),
		count(m, of+".throttled", "{entry}", "Entries that were left with a throttle.", func(e observe.Events) uint64 { return e.Throttled }),
		count(m, of+".holds", "{hold}", "Holds that have begun or were made longer.", func(e observe.Events) uint64 { return e.Held }),
		count(m, of+".resumes", "{hold}", "Holds that were ended before their time.", func(e observe.Events) uint64 { return e.Resumed }),
		count(m, of+".plan_changes", "{change}", "Changes of the plan, also those that an adaptive gate has learned.", func(e observe.Events) uint64 { return e.Planned }),
	}
}

// observe observes all that is in a snapshot.
func (i *instruments) observe(to metric.Observer, s observe.Snapshot) {
	named := func(of, name string) attribute.KeyValue { return attribute.String("escapement."+of+".name", name) }
	for _, g := range s.Gates {
		name := named("gate", g.Name)
		i.gate.observe(to, g.Stats, name)
		i.plan.observe(to, g.Plan, name)
		if g.Events != nil {
			i.events.observe(to, *g.Events, name)
		}
	}
	for _, k := range s.Keyed {
		name := named("gate", k.Name)
		i.keyed.observe(to, k.Sum, name)
		i.keys.observe(to, k, name)
		for _, key := range k.Top {
			labels := []attribute.KeyValue{name, attribute.String("escapement.keys", "top"), attribute.String("escapement.key", key.Key)}
			i.key.observe(to, key.Stats, labels...)
			i.keyTop.observe(to, key.Stats, labels...)
		}
		i.key.observe(to, k.Rest, name, attribute.String("escapement.keys", "rest"))
		if k.Events != nil {
			i.keyedEvents.observe(to, *k.Events, name)
		}
	}
	state := func(i family[int], name attribute.KeyValue, of string, states map[string]int) {
		for state, n := range states {
			i.observe(to, n, name, attribute.String("escapement."+of+".state", state))
		}
	}
	for _, g := range s.Groups {
		name := named("group", g.Name)
		i.group.observe(to, g, name)
		state(i.jobs, name, "group", map[string]int{"queued": g.Queued, "at_gate": g.AtGate, "running": g.Running})
	}
	for _, m := range s.Stages {
		name := named("stage", m.Name)
		i.stage.observe(to, m.Stats, name)
		state(i.workers, name, "stage", map[string]int{"idle": m.Stats.Idle, "at_gate": m.Stats.AtGate, "in_flight": m.Stats.InFlight, "blocked": m.Stats.Blocked})
	}
	for _, p := range s.Policies {
		i.retry.observe(to, p, named("policy", p.Name))
	}
}
