package strictapi

import "time"

type slidingWindow struct{ policy }

func (l slidingWindow) Meter(tolerance time.Duration) Meter {
	return &slidingMeter{policy: l.policy, kept: l.span - tolerance}
}

// slidingMeter keeps the instants of the calls that still count in a ring, oldest at head. The ring
// grows with use up to n, so that a limit that is never reached costs little.
type slidingMeter struct {
	policy
	kept time.Duration // for how long a call counts
	ring []time.Duration
	head int
	size int
}

func (m *slidingMeter) Take(now time.Duration) Verdict {
	for m.size > 0 && now-m.ring[m.head] >= m.kept {
		m.head = (m.head + 1) % len(m.ring)
		m.size--
	}
	ok := m.size < m.n
	if ok {
		m.push(now)
	}
	return Verdict{OK: ok, Remaining: m.n - m.size, Reset: m.ring[m.head] - now + m.span}
}

// note keeps the latest n. If a window has more than n calls, room comes when all but the latest
// n-1 have left it.
func (m *slidingMeter) note(now time.Duration) {
	if m.size == m.n {
		m.head = (m.head + 1) % len(m.ring)
		m.size--
	}
	m.push(now)
}

func (m *slidingMeter) push(at time.Duration) {
	if m.size == len(m.ring) {
		grown := make([]time.Duration, min(m.n, max(16, 2*m.size)))
		k := copy(grown, m.ring[m.head:])
		copy(grown[k:], m.ring[:m.head])
		m.ring, m.head = grown, 0
	}
	m.ring[(m.head+m.size)%len(m.ring)] = at
	m.size++
}

type fixedWindow struct{ policy }

func (l fixedWindow) Meter(tolerance time.Duration) Meter {
	return &fixedMeter{policy: l.policy, tolerance: tolerance}
}

type fixedMeter struct {
	policy
	tolerance time.Duration
	window    time.Duration // number of the window that is being filled; by tolerance it may be the next one
	count     int
}

func (m *fixedMeter) Take(now time.Duration) Verdict {
	m.turn(now)
	if m.count == m.n && m.end()-now <= m.tolerance {
		m.window, m.count = m.window+1, 0
	}
	ok := m.count < m.n
	if ok {
		m.count++
	}
	return Verdict{OK: ok, Remaining: m.n - m.count, Reset: m.end() - now}
}

func (m *fixedMeter) note(now time.Duration) {
	m.turn(now)
	m.count = min(m.count+1, m.n)
}

func (m *fixedMeter) turn(now time.Duration) {
	if current := now / m.span; current > m.window {
		m.window, m.count = current, 0
	}
}

func (m *fixedMeter) end() time.Duration { return (m.window + 1) * m.span }

type leakyBucket struct {
	policy
	burst int
}

func (l leakyBucket) Meter(tolerance time.Duration) Meter {
	return &leakyMeter{
		n:         int64(l.n),
		call:      int64(l.span),
		burst:     int64(l.burst),
		tolerance: int64(tolerance),
	}
}

// leakyMeter measures the bucket in drops so small that a call is span drops and n drops leak in a
// nanosecond. Both are whole numbers, whatever the rate. LeakyBucket has seen to it that nothing
// overflows: the level is at most burst·span + n·tolerance.
type leakyMeter struct {
	n         int64 // drops that leak in a nanosecond
	call      int64 // drops in a call
	burst     int64 // calls that the bucket holds
	tolerance int64 // nanoseconds

	level int64 // drops in the bucket at the instant last
	last  time.Duration
}

func (m *leakyMeter) Take(now time.Duration) Verdict {
	m.leak(now)
	ok := ceilDiv(m.level-(m.burst-1)*m.call, m.n) <= m.tolerance
	if ok {
		m.level += m.call
	}
	left := max(0, (m.burst*m.call-m.level)/m.call)
	excess := m.level - (m.burst-1-left)*m.call // drops that must leak before one more call fits
	return Verdict{OK: ok, Remaining: int(left), Reset: time.Duration(ceilDiv(excess, m.n))}
}

func (m *leakyMeter) note(now time.Duration) {
	m.leak(now)
	m.level = max(m.level, min(m.level, (m.burst-1)*m.call)+m.call)
}

func (m *leakyMeter) leak(now time.Duration) {
	// The division keeps dt·n from overflowing after a long silence.
	if dt := int64(now - m.last); dt >= ceilDiv(m.level, m.n) {
		m.level = 0
	} else {
		m.level -= dt * m.n
	}
	m.last = now
}

// ceilDiv returns a/b rounded up, for b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
