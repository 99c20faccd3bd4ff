package strictapi

import "time"

// Advertise is the limit real under the name of the limit shown. With a real limit below the one shown
// it refuses clients that keep to what they are told:
//
//	strictapi.Advertise(strictapi.SlidingWindow(100, time.Second), strictapi.SlidingWindow(60, time.Second))
//
// The RateLimit fields of calls that are let through tell what shown would have left. A refusal tells
// the truth about when a call is let through, in Retry-After too, but names the policy of shown.
// With [Phases] for real, a limit changes without a word.
//
// It panics if one of the two is nil.
func Advertise(shown, real Limit) Limit {
	if shown == nil {
		panic("strictapi: Advertise: shown must not be nil")
	}
	if real == nil {
		panic("strictapi: Advertise: real must not be nil")
	}
	return advertised{shown, real}
}

type advertised struct{ shown, real Limit }

func (l advertised) Policy() (int, time.Duration) { return l.shown.Policy() }

func (l advertised) policyAt(now time.Duration) (int, time.Duration) { return policyAt(l.shown, now) }

func (l advertised) shortestSpan() time.Duration {
	return min(shortestSpan(l.shown), shortestSpan(l.real))
}

func (l advertised) Meter(tolerance time.Duration) Meter {
	return &advertisedMeter{shown: l.shown.Meter(tolerance), real: l.real.Meter(tolerance)}
}

type advertisedMeter struct{ shown, real Meter }

func (m *advertisedMeter) Take(now time.Duration) Verdict {
	v := m.real.Take(now)
	if !v.OK {
		return v
	}
	// shown may be the stricter of the two now and then, and what it says then is that nothing is left.
	v = m.shown.Take(now)
	v.OK = true
	return v
}

func (m *advertisedMeter) note(now time.Duration) {
	note(m.shown, now)
	note(m.real, now)
}
