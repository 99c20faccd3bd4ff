package group

import "sync/atomic"

// JobStats says what the jobs of a [Group] do, as [Group.Stats] returns it. The goroutines of stages are not
// counted: a [Meter] counts what they do. Started, Done, Failed and Skipped only grow.
type JobStats struct {
	Name    string // see [Group.SetName]
	Limit   int    // see [Group.SetLimit]; negative: none
	Started uint64 // jobs that were given to Go, GoCost or GoEach, or that TryGo has started
	Done    uint64 // those of them that have ended in any way
	Failed  uint64 // those of them that failed the group, or would have: by f's error, or the gate's
	Skipped uint64 // those of them that never ran, because the group's context had ended
	Queued  int    // jobs that wait for the limit
	AtGate  int    // jobs that wait at the gate
	Running int    // jobs that run
}

// jobs has the counts of a group's jobs. The caller of Go, which is often one goroutine, writes started. The
// jobs of a group with a gate write passed. Each has a cache line of its own.
type jobs struct {
	_       [64]byte
	started atomic.Uint64
	queued  atomic.Int64 // calls that wait for the limit
	outside atomic.Int64 // those of them that the tally does not count
	name    atomic.Pointer[string]
	_       [64]byte

	toldStarted, toldDone atomic.Uint64 // the highest that Stats has found

	passed  atomic.Uint64 // jobs that the gate has admitted
	failed  atomic.Uint64
	skipped atomic.Uint64 // jobs that never ran
	turned  atomic.Uint64 // jobs that the gate has refused, and those that were skipped before it had admitted them
}

// Stats returns what the jobs of the group do now. The jobs go on meanwhile, so the numbers are not all of one
// instant. Any goroutine may call it, but not at the same time as SetLimit or SetGate.
func (g *Group) Stats() JobStats {
	j := &g.jobs
	s := JobStats{Limit: -1, Failed: j.failed.Load(), Skipped: j.skipped.Load(), Queued: int(j.queued.Load())}
	if name := j.name.Load(); name != nil {
		s.Name = *name
	}
	if g.sem != nil {
		s.Limit = cap(g.sem)
	}
	turned, passed := j.turned.Load(), j.passed.Load()
	// In this order, Started and Done can be too low, but never too high.
	// A job is in the tally before it is in started, and a stage is in stages only while it is in the tally.
	started := j.started.Load()
	g.mu.Lock()
	present := max(g.tally.present()-g.stages-g.sinks, 0)
	g.mu.Unlock()
	outside := int(j.outside.Load())
	highest(&j.toldStarted, started+uint64(outside))
	s.Done = highest(&j.toldDone, started-min(uint64(present), started))
	s.Started = j.toldStarted.Load() // after Done, which another Stats may have told
	if g.gate != nil {
		s.AtGate = max(int(started-turned-passed)-s.Queued, 0)
	}
	s.Running = max(present-(s.Queued-outside)-s.AtGate, 0)
	return s
}

// highest returns the highest of n and what it has returned before: a count that was told must not fall.
func highest(told *atomic.Uint64, n uint64) uint64 {
	for {
		was := told.Load()
		if n <= was {
			return was
		}
		if told.CompareAndSwap(was, n) {
			return n
		}
	}
}

// SetName gives the group a name, for its Stats. It can be called at any time.
func (g *Group) SetName(name string) { g.jobs.name.Store(&name) }
