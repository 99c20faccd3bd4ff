package gate

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// Gate decides who may go, and when. All the gates of this package are safe for use
// by any number of goroutines.
//
// Most callers want [Do], which enters, works and leaves.
type Gate interface {
	// Enter waits until the gate lets an entry of the given cost through, in order of
	// arrival, and returns the pass to leave with.
	//
	// A context that is done wins over a free place: Enter returns its
	// [context.Cause], and the gate is as if nobody had come. A wait that is known to
	// outlast the context's deadline fails at once with a *[DeadlineError], a cost that
	// the gate could never admit with a *[CapacityError]; the gate is unchanged then,
	// too. What is known is judged when an entry comes, when a plan changes, and at the gate that the
	// entry waits for; what others take meanwhile at other members of a composite is not.
	// Enter panics if ctx is nil or the cost less than 1.
	Enter(ctx context.Context, cost int) (Pass, error)

	// TryEnter enters if that is possible at this very instant, overtaking nobody who
	// waits, and reports whether it did. If not, the gate is unchanged. It panics if
	// the cost is less than 1.
	TryEnter(cost int) (Pass, bool)
}

// Pass is what a gate hands to an entry: the way out, and the place to say what became
// of it. It is a small value and can be copied; the copies are one pass. The zero Pass
// is valid and does nothing.
type Pass struct {
	keeper Keeper
	id     uint64
	cost   int
}

// Leave ends the entry that the pass stands for, with the error of the work itself, or
// nil. It must be called exactly once, when the work is over, whatever the gate: a slot
// is free again from then on, and an adaptive gate learns from the error. Leaving twice
// panics where that is found out: by a [Concurrency] and by a composite, whatever its members. A
// [Rate], a [Window] or an [Adaptive] by itself need not tell.
func (p Pass) Leave(err error) {
	if p.keeper != nil {
		p.keeper.Leave(p.id, p.cost, err)
	}
}

// Settle corrects the cost of the entry to what it actually was, where that was only guessed when
// it entered. Tokens too many come back at once. Tokens too few become a debt, which those that come
// next wait for. Settle(0) gives back everything. Call it at most once, and before Leave.
//
// A [Rate] or an [Adaptive] gives back what would be there had the entry cost that from the start. So
// tokens that the full bucket has turned away since do not come back. A Rate starts to keep account of
// that with the first entry that costs more than 1, the first Settle, or a SetBurst that lowers its
// burst. Of the token of an entry from before, as much comes back as has not flowed in since; nothing,
// if the rate was changed or a hold began.
//
// Settle panics if actual is negative, and after Leave as Leave itself does. A second call panics where
// that is found out: by a [Concurrency], a composite, and a [Window] that still counts the entry.
func (p Pass) Settle(actual int) {
	if actual < 0 {
		panic(fmt.Sprintf("gate: Pass.Settle: actual must not be negative, got %d", actual))
	}
	if p.keeper != nil {
		p.keeper.Settle(p.id, p.cost, actual)
	}
}

// settledTwice is the panic of a second Settle.
const settledTwice = "gate: Pass.Settle: must be called once, got a second call"

// Keeper is what a [Pass] goes back to. Only somebody who writes a gate needs it.
type Keeper interface {
	// Leave ends the entry with the given id and cost.
	Leave(id uint64, cost int, err error)
	// Settle changes the cost of the entry with the given id from cost to actual.
	Settle(id uint64, cost, actual int)
}

// NewPass returns a pass that goes back to k. Only somebody who writes a gate needs it.
// The id and the cost are handed to k as they are; a gate without a use for the id
// passes 0. A nil k makes a pass that does nothing.
func NewPass(k Keeper, id uint64, cost int) Pass { return Pass{k, id, cost} }

// Do enters the gate, calls f and leaves with f's error, which it returns. An error from
// entering is returned as it is, and f is not called. If f panics or ends its goroutine,
// the gate is left all the same, with an error.
//
// Do panics if g or f is nil, and then as Enter does.
func Do(ctx context.Context, g Gate, cost int, f func(context.Context) error) error {
	if isNil(g) {
		panic("gate: Do: g must not be nil")
	}
	if f == nil {
		panic("gate: Do: f must not be nil")
	}
	p, err := g.Enter(ctx, cost)
	if err != nil {
		return err
	}
	left := errUnfinished
	defer func() { p.Leave(left) }()
	left = f(ctx)
	return left
}

// Stats is what a gate can tell about itself at one instant.
type Stats struct {
	Granted   uint64        // entries let through, ever
	Refused   uint64        // entries refused: by TryEnter, for their cost or for their deadline
	NoRoom    uint64        // of those refused: by a Keyed, whose MaxKeys left no room for their key; else 0
	Abandoned uint64        // entries whose context ended before they got in
	Waiting   int           // entries that wait now
	InUse     int           // slots taken, or tokens that a window still counts; 0 for a Rate; the most of any member for a composite
	NextDue   time.Duration // until the first who waits, or else an entry of cost 1, may go; 0: now, or not known
	HeldFor   time.Duration // until the hold ends; 0: none; the longest there is: it does not
	Idle      bool          // a new gate in its place would do just the same
}

// StatsOf returns the statistics of g, and false if g keeps none. Every gate of this
// package does; a gate from elsewhere needs a method Stats() Stats.
func StatsOf(g Gate) (Stats, bool) {
	s, ok := g.(interface{ Stats() Stats })
	if !ok {
		return Stats{}, false
	}
	return s.Stats(), true
}

// isNil reports whether v is nil, or a nil pointer of some type.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	p := reflect.ValueOf(v)
	return p.Kind() == reflect.Pointer && p.IsNil()
}

// typedNil returns how a nil is written.
func typedNil(v any) string {
	if v == nil {
		return "nil"
	}
	return fmt.Sprintf("a nil %T", v)
}

// checkEntry panics on what no gate takes.
func checkEntry(name string, ctx context.Context, cost int) {
	if ctx == nil || cost < 1 {
		badEntry(name, ctx, cost)
	}
}

// badEntry is apart, so that checkEntry is inlined.
func badEntry(name string, ctx context.Context, cost int) {
	if ctx == nil {
		panic("gate: " + name + ": ctx must not be nil")
	}
	checkCost(name, cost)
}

func checkCost(name string, cost int) {
	if cost < 1 {
		panic(fmt.Sprintf("gate: %s: cost must be at least 1, got %d", name, cost))
	}
}
