package observe

import (
	"sync/atomic"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/retry"
)

// Snapshot is what all that is in a [Set] does, by name. As JSON it is what package expvar shows.
type Snapshot struct {
	Gates    []Gate
	Keyed    []Keyed
	Groups   []group.JobStats
	Stages   []Stage
	Policies []retry.Stats
}

// Gate is a gate in a [Snapshot].
type Gate struct {
	Name   string
	Plan   gate.Plan // zero if the gate does not tell
	Stats  gate.Stats
	Events *Events // nil unless they are counted, see [Item.Observer]
}

// Keyed is a [gate.Keyed] in a [Snapshot].
//
// A key can come into Top and leave it again. What its entries do between two snapshots counts for the key if it
// is in Top at the second one, and else for Rest. So the counts of Rest only grow, and so do those of a key until it is
// forgotten. Rest and all keys that ever were in Top make up Sum.
type Keyed struct {
	Name   string
	Keys   int        // that are remembered
	Sum    gate.Stats // of all keys, with those that were forgotten
	Top    []Key      // the busiest keys, the busiest first
	Rest   gate.Stats // of all others, with entries without a key. Left and Idle are not set.
	Events *Events    // of all keys; nil unless they are counted, see [Item.Observer]
}

// Key is a key in a [Snapshot]: the counts are those of its time in Top.
type Key struct {
	Key   string
	Stats gate.Stats
}

// Stage is what a [group.Meter] has counted, in a [Snapshot].
type Stage struct {
	Name  string
	Stats group.Stats
}

// Events says how often something has happened at a gate since its [Item.Observer] was set.
type Events struct {
	Waits     uint64 // entries that were admitted after a wait
	Throttled uint64 // entries that were left with a throttle
	Held      uint64 // holds that have begun or were made longer
	Resumed   uint64 // holds that were ended before their time
	Planned   uint64 // changes of the plan
}

// events counts them. It is the observer.
type events struct {
	used                                     atomic.Bool
	waits, throttled, held, resumed, planned atomic.Uint64
}

// Observe implements [gate.Observer].
func (c *events) Observe(e gate.Event) {
	switch e.Kind {
	case gate.EventAdmitted:
		c.waits.Add(1)
	case gate.EventThrottled:
		c.throttled.Add(1)
	case gate.EventHeld:
		c.held.Add(1)
	case gate.EventResumed:
		c.resumed.Add(1)
	case gate.EventPlan:
		c.planned.Add(1)
	}
}

// counts returns nil if no caller wanted the observer.
func (c *events) counts() *Events {
	if !c.used.Load() {
		return nil
	}
	return &Events{c.waits.Load(), c.throttled.Load(), c.held.Load(), c.resumed.Load(), c.planned.Load()}
}
