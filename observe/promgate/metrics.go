package promgate

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/observe"
	"github.com/escapement-go/escapement/retry"
)

// all has the metrics.
var all = newMetrics()

type metrics struct {
	descs               []*prometheus.Desc // of all below
	info, jobs, workers *prometheus.Desc

	gate, key, keyTop   family[gate.Stats]
	keyed               family[observe.Keyed]
	plan                family[gate.Plan]
	events, keyedEvents family[observe.Events]
	group               family[group.JobStats]
	stage               family[group.Stats]
	retry               family[retry.Stats]
}

func newMetrics() *metrics {
	m := &metrics{}
	m.ofGates()
	m.ofKeyed()
	m.ofKeys()
	m.ofJobs()
	m.ofRetries()
	return m
}

func (m *metrics) ofGates() {
	m.info = m.desc("gate_info", "The kind of the gate. The value is 1.", "gate", "kind")
	m.gate = family[gate.Stats]{
		count(m, "gate_granted_total", "Entries that were admitted.", granted, "gate"),
		count(m, "gate_refused_total", "Entries that were refused: by TryEnter, for their cost, or for their deadline.", refused, "gate"),
		count(m, "gate_abandoned_total", "Entries whose context ended before they were admitted.", abandoned, "gate"),
		count(m, "gate_forfeited_tokens_total", "Tokens that were lost because the system was late by more than the slack.", forfeited, "gate"),
		count(m, "gate_wait_seconds_total", "Sum of the waits of entries that were admitted.", waited, "gate"),
		count(m, "gate_wait_in_vain_seconds_total", "Sum of the waits of entries that gave up, or were refused after a wait.", inVain, "gate"),
		level(m, "gate_waiting", "Entries that wait now.", waiting, "gate"),
		level(m, "gate_in_use", "Slots that are taken, or tokens that a window counts.", inUse, "gate"),
		level(m, "gate_left", "The highest cost that would be admitted now if no entry waited.", left, "gate"),
		level(m, "gate_held_seconds", "Time until the hold ends. 0: there is none.", held, "gate"),
		level(m, "gate_longest_wait_seconds", "For how long the entry that came first has been waiting.", longest, "gate"),
	}
	m.plan = family[gate.Plan]{
		level(m, "gate_tokens_per_second", "The rate of the plan. Of an adaptive gate: the present one.", perSecond, "gate"),
		level(m, "gate_slots", "The number of slots, taken or not. Of an adaptive gate: the present one.", slots, "gate"),
		level(m, "gate_burst_tokens", "Tokens that idle time may save up.", func(p gate.Plan) float64 { return some(float64(p.Burst)) }, "gate"),
		level(m, "gate_span_seconds", "The span that the tokens of the plan are for.", func(p gate.Plan) float64 { return some(seconds(p.Span)) }, "gate"),
	}
	m.events = eventsOf(m, "gate")
}

func (m *metrics) ofKeyed() {
	sum := func(f func(gate.Stats) float64) func(observe.Keyed) float64 {
		return func(k observe.Keyed) float64 { return f(k.Sum) }
	}
	m.keyed = family[observe.Keyed]{
		level(m, "keyed_keys", "Keys that are remembered.", func(k observe.Keyed) float64 { return float64(k.Keys) }, "gate"),
		count(m, "keyed_granted_total", "Entries of all keys that were admitted.", sum(granted), "gate"),
		count(m, "keyed_refused_total", "Entries of all keys that were refused.", sum(refused), "gate"),
		count(m, "keyed_no_room_total", "Entries that were refused because there was no room for their key.", func(k observe.Keyed) float64 { return float64(k.Sum.NoRoom) }, "gate"),
		count(m, "keyed_abandoned_total", "Entries of all keys whose context ended before they were admitted.", sum(abandoned), "gate"),
		count(m, "keyed_forfeited_tokens_total", "Tokens of all keys that were lost because the system was late.", sum(forfeited), "gate"),
		count(m, "keyed_wait_seconds_total", "Sum of the waits of entries of all keys that were admitted.", sum(waited), "gate"),
		count(m, "keyed_wait_in_vain_seconds_total", "Sum of the waits of entries of all keys that gave up, or were refused after a wait.", sum(inVain), "gate"),
		level(m, "keyed_waiting", "Entries of all keys that wait now.", sum(waiting), "gate"),
		level(m, "keyed_in_use", "Slots of all keys that are taken, or tokens that windows count.", sum(inUse), "gate"),
		level(m, "keyed_held_seconds", "The longest time until the hold of a key ends.", sum(held), "gate"),
		level(m, "keyed_longest_wait_seconds", "For how long an entry of any key has been waiting at most.", sum(longest), "gate"),
	}
	m.keyedEvents = eventsOf(m, "keyed")
}

func (m *metrics) ofKeys() {
	of := []string{"gate", "keys", "key"}
	m.key = family[gate.Stats]{
		count(m, "key_granted_total", "Entries of the key that were admitted.", granted, of...),
		count(m, "key_refused_total", "Entries of the key that were refused.", refused, of...),
		count(m, "key_abandoned_total", "Entries of the key whose context ended before they were admitted.", abandoned, of...),
		count(m, "key_wait_seconds_total", "Sum of the waits of entries of the key that were admitted.", waited, of...),
		level(m, "key_waiting", "Entries of the key that wait now.", waiting, of...),
		level(m, "key_in_use", "Slots of the key that are taken, or tokens that its window counts.", inUse, of...),
		level(m, "key_held_seconds", "Time until the hold of the key ends.", held, of...),
		level(m, "key_longest_wait_seconds", "For how long the entry of the key that came first has been waiting.", longest, of...),
	}
	m.keyTop = family[gate.Stats]{
		level(m, "key_left", "The highest cost that the key would admit now if no entry waited.", left, of...),
	}
}

func (m *metrics) ofJobs() {
	m.jobs = m.desc("group_jobs", "Jobs, by what they do now.", "group", "state")
	m.group = family[group.JobStats]{
		count(m, "group_jobs_started_total", "Jobs that the group was given.", func(s group.JobStats) float64 { return float64(s.Started) }, "group"),
		count(m, "group_jobs_done_total", "Jobs that have ended, in any way.", func(s group.JobStats) float64 { return float64(s.Done) }, "group"),
		count(m, "group_jobs_failed_total", "Jobs that returned an error, or were refused by the gate.", func(s group.JobStats) float64 { return float64(s.Failed) }, "group"),
		count(m, "group_jobs_skipped_total", "Jobs that never ran, because the context ended.", func(s group.JobStats) float64 { return float64(s.Skipped) }, "group"),
		level(m, "group_jobs_limit", "Jobs that may run at once. Absent: there is no limit.", func(s group.JobStats) float64 { return unlessNegative(s.Limit) }, "group"),
	}
	m.workers = m.desc("stage_workers", "Workers of the stage, by what they do now.", "stage", "state")
	m.stage = family[group.Stats]{
		count(m, "stage_items_total", "Items that the stage has taken.", func(s group.Stats) float64 { return float64(s.In) }, "stage"),
		count(m, "stage_results_total", "Results that the stage has sent.", func(s group.Stats) float64 { return float64(s.Out) }, "stage"),
		count(m, "stage_errors_total", "Items with an error.", func(s group.Stats) float64 { return float64(s.Errors) }, "stage"),
	}
}

func (m *metrics) ofRetries() {
	retries := func(name, help string, f func(retry.Stats) uint64) metric[retry.Stats] {
		return count(m, "retry_"+name, help, func(s retry.Stats) float64 { return float64(f(s)) }, "policy")
	}
	m.retry = family[retry.Stats]{
		retries("calls_total", "Calls that have begun.", func(s retry.Stats) uint64 { return s.Calls }),
		retries("calls_succeeded_total", "Calls that returned without an error.", func(s retry.Stats) uint64 { return s.Succeeded }),
		retries("calls_failed_total", "Calls that returned an error.", func(s retry.Stats) uint64 { return s.Failed }),
		retries("attempts_total", "Attempts that have begun.", func(s retry.Stats) uint64 { return s.Attempts }),
		retries("retries_total", "Attempts that were not the first of their call.", func(s retry.Stats) uint64 { return s.Retries }),
		retries("errors_total", "Attempts that failed, and were not throttled.", func(s retry.Stats) uint64 { return s.Errors }),
		retries("throttled_total", "Attempts that were throttled.", func(s retry.Stats) uint64 { return s.Throttles }),
		retries("lost_total", "Attempts that were lost with their connection, and made again at once.", func(s retry.Stats) uint64 { return s.Lost }),
		retries("refused_by_budget_total", "Calls that the budget refused a retry.", func(s retry.Stats) uint64 { return s.NoBudget }),
		retries("delays_total", "Delays between attempts that have begun.", func(s retry.Stats) uint64 { return s.Delays }),
		count(m, "retry_delay_seconds_total", "Sum of the delays that are over.", func(s retry.Stats) float64 { return seconds(s.Slept) }, "policy"),
		level(m, "retry_calls_at_gate", "Calls that wait at the gate.", func(s retry.Stats) float64 { return float64(s.AtGate) }, "policy"),
		level(m, "retry_calls_in_delay", "Calls that are in a delay.", func(s retry.Stats) float64 { return float64(s.Asleep) }, "policy"),
		level(m, "retry_budget_left", "Retries that the budget has left. Absent: there is no budget.", func(s retry.Stats) float64 { return unlessNegative(s.Budget) }, "policy"),
	}
}

func eventsOf(m *metrics, what string) family[observe.Events] {
	event := func(name, help string, f func(observe.Events) uint64) metric[observe.Events] {
		return count(m, what+"_"+name, help, func(e observe.Events) float64 { return float64(f(e)) }, "gate")
	}
	return family[observe.Events]{
		event("waits_total", "Entries that were admitted after a wait.", func(e observe.Events) uint64 { return e.Waits }),
		event("throttled_total", "Entries that were left with a throttle.", func(e observe.Events) uint64 { return e.Throttled }),
		event("holds_total", "Holds that have begun or were made longer.", func(e observe.Events) uint64 { return e.Held }),
		event("resumes_total", "Holds that were ended before their time.", func(e observe.Events) uint64 { return e.Resumed }),
		event("plan_changes_total", "Changes of the plan, also those that an adaptive gate has learned.", func(e observe.Events) uint64 { return e.Planned }),
	}
}

func (m *metrics) desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("escapement_"+name, help, labels, nil)
	m.descs = append(m.descs, d)
	return d
}

func count[T any](m *metrics, name, help string, value func(T) float64, labels ...string) metric[T] {
	return metric[T]{m.desc(name, help, labels...), prometheus.CounterValue, value}
}

func level[T any](m *metrics, name, help string, value func(T) float64, labels ...string) metric[T] {
	return metric[T]{m.desc(name, help, labels...), prometheus.GaugeValue, value}
}

func granted(s gate.Stats) float64   { return float64(s.Granted) }
func refused(s gate.Stats) float64   { return float64(s.Refused) }
func abandoned(s gate.Stats) float64 { return float64(s.Abandoned) }
func forfeited(s gate.Stats) float64 { return float64(s.Forfeited) }
func waited(s gate.Stats) float64    { return s.Waited.Seconds() }
func inVain(s gate.Stats) float64    { return s.WaitedInVain.Seconds() }
func waiting(s gate.Stats) float64   { return float64(s.Waiting) }
func inUse(s gate.Stats) float64     { return float64(s.InUse) }
func left(s gate.Stats) float64      { return tokens(s.Left) }
func held(s gate.Stats) float64      { return seconds(s.HeldFor) }
func longest(s gate.Stats) float64   { return seconds(s.Longest) }

// perSecond returns the present rate of a plan with a span.
func perSecond(p gate.Plan) float64 {
	switch {
	case p.Interval > 0:
		return float64(time.Second) / float64(p.Interval)
	case p.Span > 0:
		return some(float64(p.N) / p.Span.Seconds())
	}
	return math.NaN()
}

// slots returns the present number of slots of a plan without a span.
func slots(p gate.Plan) float64 {
	switch {
	case p.Limit > 0:
		return float64(p.Limit)
	case p.Span == 0:
		return some(float64(p.N))
	}
	return math.NaN()
}

// seconds returns a duration in seconds. The longest one means for ever.
func seconds(d time.Duration) float64 {
	if d == math.MaxInt64 {
		return math.Inf(1)
	}
	return d.Seconds()
}

// tokens returns a number of tokens or slots. The highest one means that there is no limit.
func tokens(n int) float64 {
	if n == math.MaxInt {
		return math.Inf(1)
	}
	return float64(n)
}

// some returns n, or NaN if it is 0, which means that there is none.
func some(n float64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return n
}

// unlessNegative returns n, or NaN if it is negative, which means that there is none.
func unlessNegative(n int) float64 {
	if n < 0 {
		return math.NaN()
	}
	return float64(n)
}
