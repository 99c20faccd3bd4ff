// Package observe collects what the gates, groups, stages and policies of a program do, by name, for metrics.
//
// A [Set] has what the program shows. Its [Set.Snapshot] tells what all of it does now:
//
//	var set observe.Set
//	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
//	gate.Observe(api, set.AddGate(api).Observer())
//	expvar.Publish("gates", expvar.Func(func() any { return set.Snapshot() }))
//
// Two modules of their own export a Set, so that their dependencies stay out of yours:
// github.com/escapement-go/escapement/observe/promgate to Prometheus, and
// github.com/escapement-go/escapement/observe/otelgate to OpenTelemetry.
//
// For logs no Set is needed: see [gate.LogObserver].
//
// # Counts and levels
//
// Counts, such as Granted and Waited, only grow as long as their gate is in the Set. Levels, such as Waiting and
// Left, are those of the instant of the snapshot. The figures of one gate are of one instant. Those of different
// gates are of instants close to each other.
package observe
