// Package otelgate exports what gates do to OpenTelemetry: an [observe.Set] as metrics, and waits as spans.
//
//	var set observe.Set
//	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
//	gate.Observe(api, set.AddGate(api).Observer()) // counts the throttles, too
//	registration, err := otelgate.Register(&set, provider)
//
//	jobs.SetGate(otelgate.Trace(api, nil)) // a span for each wait
//
// # Metrics
//
// [Register] makes observable instruments: they cost nothing until they are collected. All begin with escapement. and
// what they are about:
//
//	gate.…   a gate of Set.AddGate, by escapement.gate.name
//	keyed.…  all keys of a Keyed of AddKeyed, by escapement.gate.name
//	key.…    its top keys one by one, by escapement.keys ("top") and escapement.key; all others together ("rest")
//	group.…  the jobs of a group, by escapement.group.name
//	stage.…  what a Meter counts, by escapement.stage.name
//	retry.…  the calls of retry policies, by escapement.policy.name
//
// A value that has no limit is not observed: Left, if anything is admitted. A hold without an end has the longest
// time.Duration.
//
// # Conventions
//
// The semantic conventions (v1.43.0) have none for limits that a program keeps by itself: those of
// aspnetcore.rate_limiting are for one framework. So this package goes by the general rules for
// names, units and instruments. The pools of db.client.connection are its pattern, with counts in {entry}
// and time in s.
//
// A span of [Trace] is of kind internal. On failure it has error.type and the status Error, as the conventions for
// recording errors say. Its name is the same for all gates, because span names must be few.
package otelgate
