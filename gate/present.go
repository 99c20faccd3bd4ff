package gate

import "math"

// What is left at each limit, and the end of its hold, for Stats and Explain: see member.

func (l *rateLimit) gate() Gate { return l.rate }
func (l *rateLimit) present(now int64) (n int, held int64) {
	return left(&l.state, now), l.state.Held()
}

func (l *windowLimit) gate() Gate { return &Window{l} }
func (l *windowLimit) present(now int64) (n int, held int64) {
	l.log.expire(now, l.span)
	if l.held <= now {
		n = max(l.most-l.used().tokens(), 0)
	}
	return n, l.held
}

func (l *slotLimit) gate() Gate { return &Concurrency{l} }
func (l *slotLimit) present(int64) (n int, held int64) {
	return int(min(max(l.free(), 0), math.MaxInt)), 0
}

func (l *adaptiveLimit) gate() Gate { return &Adaptive{l} }
func (l *adaptiveLimit) present(now int64) (n int, held int64) {
	if l.fade(now); !l.step.GaveUp() {
		n = left(&l.state, now)
	}
	return n, l.state.Held()
}

func (l *adaptiveSlots) gate() Gate { return &AdaptiveConcurrency{l} }
func (l *adaptiveSlots) present(now int64) (n int, held int64) {
	if l.fade(now); l.held <= now {
		free := l.step.Limit() - l.used
		if l.used == 0 {
			free = l.most // an entry of more than the limit is admitted by itself
		}
		n = int(min(max(free, 0), math.MaxInt))
	}
	return n, l.held
}

func (h *hold) gate() Gate { return h.by }
func (h *hold) present(now int64) (n int, held int64) {
	if !h.follow(now) {
		return math.MaxInt, 0
	}
	return left(&h.state, now), h.state.Held()
}
