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

	// Slack is the lateness that is made up for. 0 means 100 ms, negative means none.
	//
	// When the system is late with an alarm or a caller, the schedule stands as it was, up to this much.
	// Tokens that fell due meanwhile go at once. So the rate is held while the program keeps all
	// processors busy, or is stopped for a while: then goroutines wait for their turn for tens of
	// milliseconds. On a quiet machine the Slack changes nothing.
	//
	// It widens the bound. In any window of length w, at most Burst + rate·(w + Slack) tokens go. That is
	// by whole nanoseconds, and by the instants of the grants. With 1,000 a second, the default makes up
	// for 100 tokens; with 5 a second, for none. In a gate, admitted callers that have yet to run
	// take part of the Slack, so the bound also holds by the instants at which callers run.
	//
	// Choose less if the far side counts strictly in short spans, and lose what falls due while the
	// program is late: the Forfeited of a gate's Stats counts it. A Window of package gate never
	// exceeds its limit in any span. Without Slack, the bound is Burst + rate·w, and rates above about
	// 500 a second fall short.
	Slack time.Duration

	// Precision says what may be spent on waking up in time. 0 means PrecisionAuto.
	Precision Precision

	// Clock is where the time comes from. Nil means the real clock. A mock that is set to more
	// than a century from the present may stand still.
	Clock clock.Clock
}

// Precision says how much processor time a wake-up at the exact instant is worth. Up to
// 50,000 tokens a second it does not change the rate that is held, only how evenly they are
// spaced; above, PrecisionPrecise falls behind.
//
// It makes a difference on Linux, where an idle Go program sleeps for whole milliseconds:
// a plain timer lets a token go up to 1 ms late, and those that have become due meanwhile
// with it. Exact wake-ups bring that down to some 20 µs, and 0.1 to 0.2 ms once in a hundred
// times, as long as a processor is free. They cost a timer descriptor for
// the whole process, and at 1,000 tokens a second some fifth more processor time than plain
// timers; at 5,000 a second it is four times as much. Without a descriptor, on other systems,
// and on a clock other than the real one all three values are the same, with one exception:
//
// On the real clock of every system, where a token comes more often than every 100 µs, PrecisionAuto and
// PrecisionCoalesced let those go at once that come within the next 100 µs, or a tenth of the Slack if that is
// less. It halves the processor time of one caller in a loop; whoever's deadline is closer than that
// to its turn may miss it.
type Precision int

const (
	PrecisionAuto      Precision = iota // exact wake-ups where a token comes every half a millisecond or more rarely
	PrecisionPrecise                    // exact wake-ups always, each token by itself
	PrecisionCoalesced                  // none: plain timers, the least processor time
)

// String returns the name of the constant without its prefix.
func (p Precision) String() string {
	switch p {
	case PrecisionAuto:
		return "Auto"
	case PrecisionPrecise:
		return "Precise"
	case PrecisionCoalesced:
		return "Coalesced"
	}
	return fmt.Sprintf("Precision(%d)", int(p))
}
