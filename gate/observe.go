package gate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/escapement-go/escapement/internal/queue"
)

// Observer is told what happens at a gate. Use one to make logs, metrics or traces. [Observe] sets it.
type Observer interface {
	// Observe is called with each event, by the goroutine that caused it. It has returned before the call that
	// caused the event returns, such as Enter, Hold or Leave. No lock is held, so it may call the gate. It delays
	// its goroutine, so it should be short. It must not panic: an entry that was admitted then loses its pass.
	//
	// Several goroutines may call it at once. The events of one goroutine come in order. Those of several may come in
	// another order than that of their instants.
	Observe(Event)
}

// ObserverFunc is a function as an [Observer].
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

// EventKind says what has happened.
type EventKind int

const (
	// EventAdmitted: an entry was admitted after it had waited. Entries that did not wait are no event.
	EventAdmitted EventKind = iota + 1
	// EventRefused: an entry was refused, with Err. TryEnter has no error, so Err is nil.
	EventRefused
	// EventAbandoned: the context of an entry ended before it was admitted, with Err as its cause.
	EventAbandoned
	// EventHeld: a hold has begun or was made longer, by Hold or by the Retry-After of a throttle. It ends For from now.
	EventHeld
	// EventResumed: a hold was ended before its time.
	EventResumed
	// EventThrottled: an entry was left with a *[ThrottledError], which is Err. For is its Retry-After, or 0.
	EventThrottled
	// EventPlan: the plan has changed to Plan: it was set, or an adaptive gate has learned something.
	EventPlan
)

// String returns the name of the kind in lower case: "admitted", "refused", "abandoned", "held", "resumed",
// "throttled", "plan".
func (k EventKind) String() string {
	names := []string{"admitted", "refused", "abandoned", "held", "resumed", "throttled", "plan"}
	if k < EventAdmitted || int(k) > len(names) {
		return fmt.Sprintf("EventKind(%d)", int(k))
	}
	return names[k-1]
}

// Event is something that has happened at a gate. Which fields are set depends on its Kind.
type Event struct {
	Kind EventKind
	Gate Gate          // the gate that the observer was set for; of a Keyed, the [Key]
	Name string        // of that gate
	At   time.Time     // the instant at which it is told, on the gate's clock
	Cost int           // of the entry; if it has one for each gate, the highest
	Wait time.Duration // for how long the entry has waited
	Err  error
	For  time.Duration // the Retry-After of a throttle, or for how long a hold goes on
	Plan Plan          // the plan from now on
}

// Observe makes o the observer of g, in place of the one before. A nil o ends that. It reports whether g can be
// observed. A gate from elsewhere needs a method SetObserver(Observer) for that. Given a view, it observes the
// gate that is viewed. For a key it returns false: use [Keyed.Observe]. To have several observers, use
// [MultiObserver].
//
// Entries that come through an [All] are events of that, and not of its members. Holds and plans are events of the gate
// that they concern, so observe the members as well. A throttle is one of the All, and of the members that learn.
//
// Without an observer, an entry that finds room pays nothing, and any other one a check. With one, entries that find
// room pay no more.
func Observe(g Gate, o Observer) bool {
	of, _ := unview(g)
	if n, ok := native(of).(noted); ok {
		n.noted().observe(of, o)
		return true
	}
	s, ok := of.(interface{ SetObserver(Observer) })
	if ok {
		s.SetObserver(o)
	}
	return ok
}

// observe sets the observer. of is the gate in the events.
func (c *counts) observe(of Gate, o Observer) {
	c.set(func(k *notes) { k.observer, k.of = o, of })
}

// Observe makes o the observer of the gates of all keys, those remembered and those to come. A nil o ends that.
// Gate in the events is the [Key]. An entry that has no room for its key is an EventRefused.
//
// Gates that keys share, and gates from elsewhere, are not observed: set an observer for these.
func (k *Keyed[K]) Observe(o Observer) {
	k.counts.observe(nil, o)
	for _, e := range k.line() {
		k.observeKey(e)
	}
}

// observeKey passes the observer on to the gate of a key.
func (k *Keyed[K]) observeKey(e *keyGate[K]) {
	known := k.notes.Load()
	if known == nil {
		return
	}
	of, _ := unview(e.gate)
	if n, ok := native(of).(noted); ok && n.noted().number > e.number {
		n.noted().observe(k.For(e.key), known.observer)
	}
}

// noGate tells of an entry that got no gate. For a TryEnter, err is nil.
func (k *Keyed[K]) noGate(key K, cost int, err error) {
	kind := EventRefused
	if _, full := err.(*KeysError); err != nil && !full {
		kind = EventAbandoned
	}
	k.tellOf(key, Event{Kind: kind, Cost: cost, Err: err})
}

// tellOf tells of an entry that got no gate.
func (k *Keyed[K]) tellOf(key K, e Event) {
	if on := k.notes.Load(); on != nil && on.observer != nil {
		(&notes{observer: on.observer, of: k.For(key)}).tell(e)
	}
}

// MultiObserver returns an observer that tells each event to all, in their order. It panics if one of them is nil.
func MultiObserver(all ...Observer) Observer {
	for i, o := range all {
		if isNil(o) {
			panic(fmt.Sprintf("gate: MultiObserver: an observer must not be nil, got %s for observer %d", typedNil(o), i+1))
		}
	}
	all = slices.Clone(all)
	return ObserverFunc(func(e Event) {
		for _, o := range all {
			o.Observe(e)
		}
	})
}

// LogObserver returns an observer that logs each event, with the attributes gate, cost, wait, err, for and plan as
// far as they are set. EventAdmitted and EventPlan are logged at the level Debug, EventHeld, EventResumed and
// EventAbandoned at Info, EventRefused and EventThrottled at Warn. The time of a record is that of the log, and not
// that of the gate's clock. LogObserver panics if l is nil.
func LogObserver(l *slog.Logger) Observer {
	if l == nil {
		panic("gate: LogObserver: the logger must not be nil")
	}
	return ObserverFunc(func(e Event) {
		level := e.Kind.level()
		if !l.Enabled(context.Background(), level) {
			return
		}
		attrs := []slog.Attr{slog.String("gate", e.Name)}
		add := func(some bool, a slog.Attr) {
			if some {
				attrs = append(attrs, a)
			}
		}
		add(e.Cost > 0, slog.Int("cost", e.Cost))
		add(e.Wait > 0, slog.Duration("wait", e.Wait))
		add(e.For > 0, slog.Duration("for", e.For))
		add(e.Err != nil, slog.Any("err", e.Err))
		add(e.Kind == EventPlan, slog.String("plan", e.Plan.String()))
		l.LogAttrs(context.Background(), level, "gate "+e.Kind.String(), attrs...)
	})
}

func (k EventKind) level() slog.Level {
	switch k {
	case EventAdmitted, EventPlan:
		return slog.LevelDebug
	case EventRefused, EventThrottled:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// LabelWaits sets whether goroutines that wait at a gate have the profiler label "gate", with the name of the gate. It
// is a setting of the whole program, and off at first: each wait then costs some allocations. In a goroutine profile
// the labels tell how many callers wait at which gate:
//
//	go tool pprof -tagfocus gate=api http://localhost:6060/debug/pprof/goroutine
//
// After the wait, the goroutine has the labels of the context that Enter got. Where you set labels
// of your own by pprof.Do, enter with its context.
//
// While the program is traced, see package runtime/trace, each wait is a region "gate NAME", with or without labels.
func LabelWaits(on bool) { queue.Labels.Store(on) }
