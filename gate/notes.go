package gate

import (
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// notes are what Named, Observe and Track have set for a gate. Most gates have none.
type notes struct {
	name     string
	observer Observer
	of       Gate        // the gate in the events
	open     *openPasses // nil: passes are not kept
}

// set changes what is known of the gate.
func (c *counts) set(f func(*notes)) {
	for {
		old := c.notes.Load()
		var k notes
		if old != nil {
			k = *old
		}
		f(&k)
		if c.notes.CompareAndSwap(old, &k) {
			return
		}
	}
}

// named returns the name that the gate was given, or that of the kind with its number.
func (c *counts) named(kind string) string {
	if name := c.given(); name != "" {
		return name
	}
	return numbered(kind, c.number)
}

// given returns the name that the gate was given, or "".
func (c *counts) given() string {
	if k := c.notes.Load(); k != nil {
		return k.name
	}
	return ""
}

// refuse counts a TryEnter that was refused.
func (c *counts) refuse(cost int) {
	c.refused.Add(1)
	c.tell(Event{Kind: EventRefused, Cost: cost})
}

// decided tells the observer of an entry that was decided and counted. wait is how long it has waited, or NoWait.
func (c *counts) decided(kind EventKind, cost int, wait time.Duration, err error) {
	c.tell(Event{Kind: kind, Cost: cost, Wait: max(wait, 0), Err: err})
}

// tell tells the observer of an event, if there is one. No lock is held.
func (c *counts) tell(e Event) {
	if k := c.notes.Load(); k != nil && k.observer != nil {
		k.tell(e)
	}
}

func (k *notes) tell(e Event) {
	clk := clockOf(k.of)
	e.Gate, e.Name, e.At = k.of, NameOf(k.of), clk.Time(clk.Now())
	k.observer.Observe(e)
}

// heldFor tells of a hold that has just begun, or was made longer. It does nothing if it was not.
func (c *counts) heldFor(longer bool, d time.Duration) {
	if longer {
		c.tell(Event{Kind: EventHeld, For: d})
	}
}

// resumed tells of the end of a hold, if there was one.
func (c *counts) resumed(held bool) {
	if held {
		c.tell(Event{Kind: EventResumed})
	}
}

// replanned tells of a change of the plan.
func (c *counts) replanned() {
	if k := c.notes.Load(); k != nil && k.observer != nil {
		p, _ := PlanOf(k.of)
		k.tell(Event{Kind: EventPlan, Plan: p})
	}
}

// throttledBy tells of an entry that was left with err, if that is a throttle.
func (c *counts) throttledBy(cost int, err error) {
	if k := c.notes.Load(); k != nil && k.observer != nil {
		if t := throttleOf(err); t != nil {
			k.tell(Event{Kind: EventThrottled, Cost: cost, Err: err, For: t.After})
		}
	}
}

// clockOf returns the clock of a gate of this package: the real one if it has none.
func clockOf(g Gate) (clk *timing.Clock) {
	switch g := native(g).(type) {
	case *Composite:
		clk = g.hold.clock()
	case compound:
		clk = g.clock(nil)
	case limited:
		clk = g.part().clock()
	}
	if clk == nil {
		clk = timing.New(nil)
	}
	return clk
}
