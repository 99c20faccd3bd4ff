package gate_test

import (
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
)

// How long a heavy entry waits at a window is known from the last of the tokens that it needs back:
// it is refused at once by a deadline before that, and not when the first of them is back.
func TestWindowKnowsWhenTheLastTokenIsBack(t *testing.T) {
	for cost, due := range map[int]time.Duration{1: time.Second, 2: 1100 * ms, 3: 1250 * ms} {
		bubble.Both(t, func(b *bubble.B) {
			g := gate.NewWindow(3, time.Second, &gate.WindowOptions{Clock: b.Clock()})
			for _, at := range []time.Duration{0, 100 * ms, 250 * ms} {
				b.AdvanceTo(at)
				if _, ok := g.TryEnter(1); !ok {
					b.Fatal("refused while there is room")
				}
			}
			b.AdvanceTo(300 * ms)
			early, cancel := b.WithTimeout(due - 300*ms)
			defer cancel()
			late, cancel := b.WithTimeout(due - 300*ms + 1)
			defer cancel()
			q := newFates(b)
			q.enter(early, g, "early", cost)
			q.want("early: " + (&gate.DeadlineError{Wait: due - 300*ms}).Error() + " at 300ms")
			q.enter(late, g, "late", cost)
			b.AdvanceTo(due)
			q.want("late: " + due.String())
		})
	}
}
