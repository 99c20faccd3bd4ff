package gate

import "sync"

// life is the part of a pass's record that tells where the pass stands. The record is used for one entry
// after another. It is free again when its pass has been both left and settled; the record of a pass that is
// never settled is garbage. So a caller can settle long after it has left.
//
// The turn tells the passes of one record apart: a copy of an old pass may outlive its use of the record.
type life struct {
	mu      sync.Mutex // held while the pass is left or settled, and what the record says is changed
	turn    uint64     // of the pass that is out, or of the next one
	left    bool
	settled bool
	forget  bool // the record is free when its pass is left
}

// A pass has the turn for an id, and below it whether it is forgotten when it is left.
func (l *life) id() uint64 {
	if l.forget {
		return l.turn<<1 | 1
	}
	return l.turn << 1
}

// leave begins to leave the pass, and locks the record. It panics if the pass was left.
func (l *life) leave(id uint64) {
	l.mu.Lock()
	if l.turn != id>>1 || l.left {
		l.mu.Unlock()
		panic(leftTwice)
	}
	l.left = true
}

// settle begins to settle the pass, and locks the record. It panics if the pass was settled. It reports
// false, and does nothing, if the pass was forgotten.
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

// done unlocks the record, and reports whether its pass is over. Then the record is free for another pass.
// One that could be forgotten, but was settled, is not: it finds out a second Settle.
func (l *life) done() (over bool) {
	over = l.left && l.settled != l.forget
	if over {
		l.turn++
		l.left, l.settled = false, false
	}
	l.mu.Unlock()
	return over
}

// These are the panics of a second call, whichever gate finds it out.
const (
	leftTwice    = "gate: Pass.Leave: must be called once, got a second call"
	settledTwice = "gate: Pass.Settle: must be called once, got a second call"
)
