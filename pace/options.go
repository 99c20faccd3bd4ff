package pace

import (
	"fmt"
	"time"

	"github.com/benbjohnson/clock"
)

// Options are the settings of a [Pacer], of [Throttle] and of the gates that keep a
// rate. Nil, as well as the zero value, means the defaults.
type Options struct {
	// Burst is the number of tokens that idle time may save up. 0 means 1: strict
	// spacing.
	Burst int

	// Slack is the lateness that is made up. When the system wakes a caller late, the
	// schedule stands as it was, up to this much, and the tokens that fell due
	// meanwhile go out at once. It widens the bound: in any window of length w at most
	// Burst + rate·(w + Slack) tokens go (instants being whole nanoseconds, at which it was
	// decided that a token goes: how soon it gets there is up to the system, and in a gate those who
	// have yet to get to run take part of the Slack meanwhile). 0 means 10 ms,
	// which is enough for a system that has a processor free now and then. Where the program
	// keeps all of them busy itself, its goroutines wait for their turn for some tens of
	// milliseconds, and only a Slack of more than that holds the rate. Negative means none:
	// the bound is then Burst + rate·w, and rates above about 500 a second fall short of what
	// was asked for.
	Slack time.Duration

	// Precision says what may be spent on waking up in time. 0 means Auto.
	Precision Precision

	// Clock is where the time comes from. Nil means the real clock. A mock that is set to more
	// than a century from the present may stand still.
	Clock clock.Clock
}

// Precision says how much processor time a wake-up at the exact instant is worth. Up to
// 50,000 tokens a second it does not change the rate that is held, only how evenly they are
// spaced; above, Precise falls behind.
//
// It makes a difference on Linux, where an idle Go program sleeps for whole milliseconds:
// a plain timer lets a token go up to 1 ms late, and those that have become due meanwhile
// with it. Exact wake-ups bring that down to some 20 µs, and 0.1 to 0.2 ms once in a hundred
// times, as long as a processor is free. They cost a timer descriptor for
// the whole process, and at 1,000 tokens a second some fifth more processor time than plain
// timers; at 5,000 a second it is four times as much. Without a descriptor, on other systems,
// and on a clock other than the real one all three values are the same, with one exception:
//
// On the real clock of every system, where a token comes more often than every 100 µs, Auto and
// Coalesced let those go at once that come within the next 100 µs, or a tenth of the Slack if that is
// less. It halves the processor time of one caller in a loop; whoever's deadline is closer than that
// to its turn may miss it.
type Precision int

const (
	Auto      Precision = iota // exact wake-ups where a token comes every half a millisecond or more rarely
	Precise                    // exact wake-ups always, each token by itself
	Coalesced                  // none: plain timers, the least processor time
)

// String returns the name of the constant.
func (p Precision) String() string {
	switch p {
	case Auto:
		return "Auto"
	case Precise:
		return "Precise"
	case Coalesced:
		return "Coalesced"
	}
	return fmt.Sprintf("Precision(%d)", int(p))
}

// Check panics, in the name of the function that was called, such as "gate: NewRate", where a
// rate or its options break a rule. It is for constructors that take them.
func (o *Options) Check(name string, r Rate) {
	if !r.Valid() {
		panic(name + ": the rate must be valid, got the zero Rate")
	}
	if o == nil {
		return
	}
	if o.Burst < 0 {
		panic(fmt.Sprintf("%s: Burst must not be negative, got %d", name, o.Burst))
	}
	if o.Precision < Auto || o.Precision > Coalesced {
		panic(fmt.Sprintf("%s: Precision must be Auto, Precise or Coalesced, got %d", name, int(o.Precision)))
	}
}
