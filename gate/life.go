package gate

import "sync"

// life is the state of a pass: whether it was left, and whether it was settled. It is part of the pass's
// record, which is used for one entry after another.
//
// A record is free when its pass has been both left and settled, so a caller can settle long after Leave. The
// record of a pass that is never settled is left to the garbage collector, unless forget is set.
//
// The turn tells the passes of one record apart: a copy of an old pass may still be used when the record
// serves another entry.
type life struct {
	mu      sync.Mutex // held during Leave and Settle; guards the record
	turn    uint64     // of the pass that is in use, or of the next one
	left    bool
	settled bool
	forget  bool // the record is free when its pass is left
}

// id returns the id of the pass: the turn, and in the lowest bit whether it is forgotten when it is left.
func (l *life) id() uint64 {
	if l.forget {
		return l.turn<<1 | 1
	}
	return l.turn << 1
}

// leave begins a Leave, and locks the record. It panics if the pass was left before.
func (l *life) leave(id uint64) {
	l.mu.Lock()
	if l.turn != id>>1 || l.left {
		l.mu.Unlock()
		panic(leftTwice)
	}
	l.left = true
}

// settle begins a Settle, and locks the record. It panics if the pass was settled before. If the pass was
// forgotten, it reports false and locks nothing.
func (l *life) settle(id uint64) bool {
	l.mu.Lock()
	if l.turn != id>>1 && id&1 != 0 {
		l.mu.Unlock()
		return false
	}
	if l.turn != id>>1 || l.settled {
		l.mu.Unlock()
		panic(settledTwice)
	}
	l.settled = true
	return true
}

// done ends a Leave or Settle: it unlocks the record, and reports whether its pass is over. Then the record is
// free for another pass. A pass with forget that was settled all the same is never over: its record is kept to
// detect a second Settle.
func (l *life) done() (over bool) {
	over = l.left && l.settled != l.forget
	if over {
		l.turn++
		l.left, l.settled = false, false
	}
	l.mu.Unlock()
	return over
}

// These are the panics of a second call, at any gate that detects it.
const (
	leftTwice    = "gate: Pass.Leave: must be called once, got a second call"
	settledTwice = "gate: Pass.Settle: must be called once, got a second call"
)
