// Package promgate exports what gates do to Prometheus: an [observe.Set] as a prometheus.Collector.
//
//	var set observe.Set
//	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
//	gate.Observe(api, set.AddGate(api).Observer()) // counts the throttles, too
//	prometheus.MustRegister(promgate.New(&set))
//
// The file dashboard.json is a dashboard for Grafana. The program in folder example has something to look at:
//
//	go run ./observe/promgate/example
//
// # Metrics
//
// Each begins with escapement_ and what it is about. Durations are in seconds. A value without a limit is +Inf.
//
//	gate_…   {gate}             a gate of Set.AddGate
//	keyed_…  {gate}             all keys of a Keyed of AddKeyed
//	key_…    {gate, keys, key}  its top keys one by one (keys="top"), and all others together (keys="rest")
//	group_…  {group}            the jobs of a group
//	stage_…  {stage}            what a Meter counts
//	retry_…  {policy}           the calls of retry policies
//
// Gates, the sum of a Keyed, and its keys are three families, so that a sum over one counts no entry twice. A member of
// an All counts its share of each entry, as the All does: don't add these up.
//
// These have what it takes to answer the usual questions:
//
//	rate(escapement_gate_granted_total[5m]) / escapement_gate_tokens_per_second   how much of the limit is used
//	rate(escapement_gate_wait_seconds_total[5m])                                  callers that wait, on average
//	increase(escapement_gate_wait_seconds_total[8h])                              seconds lost to the limit
//	escapement_gate_longest_wait_seconds > 60                                     a caller waits too long
//	increase(escapement_gate_throttled_total[5m]) > 0                             the far side refuses calls
//
// Waits are counted when they end, so those under way show in longest_wait_seconds first.
//
// # Names and labels
//
// Labels are the names of a [observe.Snapshot]: two gates with one name are "api" and "api #2". Names and keys can be
// any text, also from strangers. A name that changes makes new series, and so does a key that comes into the top.
//
// Use prometheus.WrapRegistererWith for labels of your own, and to register several Sets.
package promgate
