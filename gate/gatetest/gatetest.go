// Package gatetest is the conformance suite of package gate. It checks what every [gate.Gate] owes
// its callers, also for a gate of your own. A gate that passes can be used wherever a gate can: in
// a group, in a composite, behind a key.
//
// Describe the gate in a [Subject] and pass it to [Run]:
//
//	func TestMyGate(t *testing.T) {
//		gatetest.Run(t, gatetest.Subject{
//			New:      func(testing.TB) gate.Gate { return mygate.New(4, 50*time.Millisecond) },
//			Capacity: 4,
//			Back:     50 * time.Millisecond,
//			Most:     func(w time.Duration) int { return 4 * (1 + int(w/(50*time.Millisecond))) },
//			Foresees: true,
//		})
//	}
//
// # Real time
//
// A subject without Advance runs in real time. The suite then never fails a gate for being late, or
// for anything else that a stalled machine could explain. So what it reports is a mistake of the
// gate, and not a second in which the machine was busy. Spans of some tens of milliseconds are long
// enough to see a mistake and short enough to wait for.
//
// # Exact time
//
// With Advance, time passes only when the suite says so, and everything is exact. An entry that is
// admitted too late is then as wrong as one that is admitted too early. There are no subtests
// inside of a testing/synctest bubble, so run each check in a bubble of its own:
//
//	for _, check := range gatetest.Checks() {
//		t.Run(check.Name, func(t *testing.T) {
//			synctest.Test(t, func(t *testing.T) {
//				check.Run(t, gatetest.Subject{
//					// as above, and:
//					Advance: func(d time.Duration) {
//						synctest.Wait()
//						time.Sleep(d)
//						synctest.Wait()
//					},
//				})
//			})
//		})
//	}
package gatetest

import (
	"slices"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
)

// Subject describes the gate under test. New and Capacity are always needed, and so are Slots, or
// Back with Most. The zero value of every other field is a sound default.
type Subject struct {
	// New makes an unused gate. It is called at least once for each check. No two of its gates may
	// share anything.
	New func(testing.TB) gate.Gate

	// Capacity is the number of tokens that a new gate admits at once, and not one more. With 1,
	// the checks of light and heavy entries together check nothing.
	Capacity int

	// MaxCost is the highest cost that the gate admits, from 1 to Capacity. 0 means Capacity. The
	// order of heavy entries is checked if no two of them fit at once.
	MaxCost int

	// Slots says that tokens are in use until their pass is left. Otherwise only time brings them
	// back, although the suite leaves every pass.
	Slots bool

	// Back is how long it takes at most until one token is back, when all are taken and every pass
	// has been left. It is the interval of a rate, or the span of a window. 0 means that leaving is
	// enough.
	Back time.Duration

	// Most returns the most tokens that may be granted in any span of length w, both ends included,
	// if the system is never late. For a rate that is the burst and what comes in w, without any
	// slack. Most(0) is Capacity.
	//
	// Instants are whole nanoseconds. Where an interval is not, allow for a span that looks one
	// nanosecond shorter than it is. Nil means that only slots are limited.
	Most func(w time.Duration) int

	// Foresees says that the gate knows how long it takes until time brings a token back. It then
	// refuses an entry with a deadline before that, at once and with a *gate.DeadlineError.
	Foresees bool

	// AfterHold returns the most tokens that may be granted within w from the end of a hold on,
	// both ends included. A method Resume() may have ended the hold. It is for gates with a method
	// Hold(time.Duration). A rate does not burst after a hold: for a rate it is one and what comes in w. Nil
	// means Most.
	AfterHold func(w time.Duration) int

	// Clock is the clock of the gates that New makes. Nil means the real one.
	Clock clock.Clock

	// Advance lets d pass on the gate's clock, and returns when all other goroutines are blocked.
	// With a d of 0 it only waits for that. Nil means that time passes by itself, on the real
	// clock.
	Advance func(d time.Duration)

	// Except names checks that do not apply, each with the reason. The check is skipped with that
	// reason.
	Except map[string]string
}

// Check is one thing that every gate owes its callers.
type Check struct {
	Name string // of the subtest, and in Subject.Except
	Owes string // what the gate owes, in a sentence

	run func(*trial)
}

// Run runs the check on a gate of s. It fails tb if the gate does not do what it owes, and panics
// on a Subject that breaks a rule.
func (c Check) Run(tb testing.TB, s Subject) {
	tb.Helper()
	s.check()
	if why, ok := s.Except[c.Name]; ok {
		tb.Skip(why)
	}
	t := &trial{TB: tb, s: s}
	defer t.finish()
	t.fresh()
	c.run(t)
}

// Checks returns all checks, in the order in which Run runs them.
func Checks() []Check { return slices.Clone(checks) }

// Run runs all checks as subtests of t. It must not be called in a bubble. See [Checks] to run each
// check in one.
func Run(t *testing.T, s Subject) {
	s.check()
	for _, c := range checks {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, s) })
	}
}

var checks = []Check{
	{"capacity", "A new gate admits its capacity at once, and no more.", capacity},
	{"idleness", "Idle time saves up the capacity, and no more.", idleness},
	{"refused try", "A TryEnter that is refused takes nothing.", refusedTry},
	{"refused pass", "The zero Pass, and the pass of an entry that was refused, do nothing.", refusedPass},
	{"done context", "A done context wins over a free token; its cause comes back, and nothing is taken.", doneContext},
	{"wake-up", "An entry waits while the gate is full, and is admitted when a token is back.", wakeUp},
	{"order", "Entries that wait are admitted in order of arrival.", order},
	{"overtaking", "Light entries never overtake a heavy one that waits.", overtaking},
	{"cancelled head", "When the first entry that waits gives up, it costs nothing and the others move up.", cancelled(0)},
	{"cancelled middle", "When an entry in the middle gives up, it costs nothing and the others move up.", cancelled(1)},
	{"cancelled tail", "When the last entry gives up, it costs nothing and the others stay where they are.", cancelled(2)},
	{"cancelled many", "Any number of entries that give up cost nothing.", cancelledMany},
	{"photo finish", "If the context ends in the instant of the grant, the entry is admitted, or was never there.", photoFinish},
	{"too costly", "A cost above the capacity is a *gate.CapacityError at once, and takes nothing.", tooCostly},
	{"misuse", "A cost below 1 and a nil context panic, and take nothing.", misuse},
	{"deadline", "A deadline that can't be met ends the wait, at once where that is known; it takes nothing.", deadline},
	{"settle down", "Settling for less gives tokens back at once.", settleDown},
	{"settle up", "Settling for more is a debt that later entries wait for.", settleUp},
	{"settle to nothing", "Settling for 0 gives everything back, once.", settleToNothing},
	{"settle after leave", "Settling for 0 after Leave gives back the tokens that Leave did not, and no more.", settleAfterLeave},
	{"do", "Do leaves the gate when the work fails.", doFails},
	{"do panics", "Do leaves the gate when the work panics or ends its goroutine.", doPanics},
	{"all or nothing", "An entry that is refused or gives up for want of a slot takes no token that time has brought.", allOrNothing},
	{"left twice", "Leaving a second time gives nothing back.", leftTwice},
	{"hold", "A gate that can be held admits no entry until the hold is over, whether it waits or comes later.", holdKeepsOut},
	{"hold length", "A hold is never shortened, and one that is not positive is none.", holdIsNotShortened},
	{"hold and deadline", "A deadline before the end of a hold fails at once with a *gate.DeadlineError.", holdAndDeadline},
	{"after a hold", "After a hold, no more tokens go than may.", noBurstAfterHold},
	{"hold in stats", "The statistics, where there are any, tell of a hold.", holdInStats},
	{"resume", "Resume ends a hold at once, for entries that wait and for those that come.", resumeEndsHold},
	{"resume without a hold", "Without a hold, Resume does nothing.", resumeOfNoHold},
	{"after resume", "After Resume, no more tokens go than after a hold.", noBurstAfterResume},
	{"stampede", "Any number of goroutines at once get the capacity, and no more.", stampede},
	{"crowd", "A crowd that comes, waits, gives up and leaves gets what is there, never more, never less.", crowd},
	{"goroutines", "No goroutine is left behind.", goroutines},
	{"stats", "The statistics, where there are any, add up.", statsAddUp},
	{"refusals", "In the statistics an entry that is too costly is one refusal.", refusalsCount},
}
