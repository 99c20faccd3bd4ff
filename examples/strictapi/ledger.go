package strictapi

import (
	"fmt"
	"time"
)

// A Ledger counts amounts against a limit: at most n in any half-open span of time, wherever it is laid. Use
// it for what a call takes more than one of, such as tokens or points. It refuses nothing by itself: a
// server asks for the [Ledger.Room], and adds what it lets through.
//
// It knows no clock: instants are arguments, which never decrease from one call to the next. It remembers
// every amount, for [Ledger.Used]. Make one with [NewLedger]. It is not safe for concurrent use.
type Ledger struct {
	n    int
	span time.Duration

	amounts []amount
	oldest  int // the first of them that still counts
	counted int // the sum of those that do
	worst   int
}

type amount struct {
	at time.Duration
	n  int
}

// NewLedger returns a ledger of nothing. It panics if n is below 1 or span is not positive.
func NewLedger(n int, span time.Duration) *Ledger {
	checkLimit("NewLedger", n, span)
	return &Ledger{n: n, span: span}
}

// Limit returns the limit.
func (l *Ledger) Limit() int { return l.n }

// Room returns how much more may be added at the instant now. It is negative if the limit is exceeded.
func (l *Ledger) Room(now time.Duration) int {
	for l.oldest < len(l.amounts) && now-l.amounts[l.oldest].at >= l.span {
		l.counted -= l.amounts[l.oldest].n
		l.oldest++
	}
	return l.n - l.counted
}

// Add counts an amount at the instant now, whether there is room or not. It panics if n is negative.
func (l *Ledger) Add(now time.Duration, n int) {
	if n < 0 {
		panic(fmt.Sprintf("strictapi: Ledger.Add: n must not be negative, got %d", n))
	}
	l.Room(now) // what no longer counts is gone
	l.amounts = append(l.amounts, amount{now, n})
	l.counted += n
	l.worst = max(l.worst, l.counted)
}

// Wait returns how long it is from the instant now until there is room for n, if nothing is added before.
// For more than the limit it is the time until nothing counts.
func (l *Ledger) Wait(now time.Duration, n int) time.Duration {
	missing := min(n, l.n) - l.Room(now)
	for i := l.oldest; missing > 0; i++ {
		if missing -= l.amounts[i].n; missing <= 0 {
			return l.amounts[i].at + l.span - now
		}
	}
	return 0
}

// Worst returns the largest sum in any span so far.
func (l *Ledger) Worst() int { return l.worst }

// Used returns the share of the limit that was in use between two instants: the sum that counts, averaged
// over time, by the limit. It is 0 if until is not after from. It takes time proportional to the number of
// amounts.
func (l *Ledger) Used(from, until time.Duration) float64 {
	if until <= from {
		return 0
	}
	used := 0.0
	for _, a := range l.amounts {
		if counts := min(a.at+l.span, until) - max(a.at, from); counts > 0 {
			used += float64(a.n) * counts.Seconds()
		}
	}
	return used / float64(l.n) / (until - from).Seconds()
}
