package pace

import (
	"fmt"
	"time"

	"github.com/benbjohnson/clock"
)

// Options are the settings of a [Pacer], of [Throttle] and of a gate.Rate. A nil *Options, as well as
// the zero value, means the defaults.
//
// # Lateness and slack
//
// The system is sometimes late: an alarm rings late, or a goroutine that was woken waits for a
// processor. Up to Slack of that lateness is made up for: tokens that fell due meanwhile are granted
// at once. So the rate is held even while the program keeps all processors busy, or is stopped for a
// while. On a quiet machine the Slack changes nothing.
//
// # The bound
//
// In any window of length w, at most Burst + rate·(w + Slack) tokens are granted, to the nanosecond.
// At 1,000 tokens a second, the default Slack makes up for 100 tokens. At 5 a second, it makes up for
// none. In a gate, callers that were granted a token but do not run yet use up part of the Slack. So
// there the bound also holds for the instants at which callers run.
//
// # Less slack
//
// Set a smaller Slack if the far side counts strictly in short spans. Tokens that fall due while
// the program is late by more than the Slack are lost; Forfeited of gate.Stats counts them. Without
// any Slack, the bound is Burst + rate·w, and rates above about 500 a second fall short. If no span
// may ever have more than n, use a gate.Window.
type Options struct {
	// Burst is the number of tokens that idle time may save up. 0 means 1: strict
	// spacing.
	Burst int

	// Slack is the lateness that is made up for. 0 means 100 ms, negative means none. The
	// documentation of Options says what it costs, and when to set less.
	Slack time.Duration

	// Precision says how much processor time may be spent on waking up in time. 0 means PrecisionAuto.
	Precision Precision

	// Clock is where the time comes from. Nil means the real clock. A mock more than a century away
	// from the present may stand still.
	Clock clock.Clock
}

// Precision says how much processor time a wake-up at the exact instant is worth. [PrecisionAuto]
// is right for most programs. Up to 50,000 tokens a second the precision changes only how evenly
// the tokens are spaced, and not the rate that is held. Above that, [PrecisionPrecise] falls
// behind.
//
// # On Linux
//
// An idle Go program sleeps for whole milliseconds there. With a plain timer, a token is granted up
// to 1 ms late, together with those that have become due meanwhile. With exact wake-ups it is some
// 20 µs late if a processor is free, and 0.1 to 0.2 ms in one of a hundred cases.
//
// Exact wake-ups take one timer descriptor for the whole process. At 1,000 tokens a second they cost
// about a fifth more processor time than plain timers, and at 5,000 a second four times as much.
//
// On other systems, and on a clock other than the real one, all three values mean plain timers.
//
// # Tokens less than 100 µs apart
//
// On the real clock of every system, [PrecisionAuto] and [PrecisionCoalesced] then grant several
// tokens at once. These are the tokens due within 100 µs, or a tenth of the Slack if that is less.
// That halves the processor time of one caller in a loop. But a token may be granted that much late,
// so a caller with a deadline just after its token is due may miss it.
type Precision int

const (
	PrecisionAuto      Precision = iota // exact wake-ups where tokens are half a millisecond or more apart
	PrecisionPrecise                    // exact wake-ups always, each token by itself
	PrecisionCoalesced                  // no exact wake-ups: plain timers, the least processor time
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
