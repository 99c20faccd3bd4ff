package gate

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/escapement/internal/timing"
)

// Entries that append to the log without a lock, from many goroutines and against one that
// closes, grows and opens it, get numbers without a gap, instants in the order of their
// numbers, and never more than most within a span.
func TestWindowLogInParallel(t *testing.T) {
	const (
		most = 50
		span = int64(200 * time.Microsecond)
		each = 3000

		unknown = -1
	)
	type entry struct {
		number uint64
		at     int64
	}
	clk := timing.New(nil)
	g := NewWindow(most, time.Duration(span), nil)
	lists := make([][]entry, 4)
	var wg sync.WaitGroup
	for i := range lists {
		wg.Go(func() {
			for range each {
				l := g.log.Load()
				number, found := l.take(clk, span, most, 1)
				if found == picked {
					e := entry{number, l.run(number).at.Load()}
					if l.run(number).number.Load() != number+1 {
						e.at = unknown // this goroutine was away, and the place has been used again
					}
					lists[i] = append(lists[i], e)
				}
				if i == 0 && found == busy {
					d := g.n.lock()
					now := g.n.lane.read(d)
					if m := g.member(); m.due(now, now, 1) <= now {
						number := m.take(now, now, 1)
						lists[i] = append(lists[i], entry{number, now})
					}
					d.unlock()
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b entry) int { return int(int64(a.number - b.number)) })
	for i, e := range all {
		if e.number != uint64(i+1) {
			t.Fatalf("entry %d of %d has number %d", i+1, len(all), e.number)
		}
		if e.at == unknown {
			continue
		}
		if i > 0 && e.at < all[i-1].at {
			t.Fatalf("entry %d went %d ns before the one before it", e.number, all[i-1].at-e.at)
		}
		if i >= most && all[i-most].at != unknown && e.at-all[i-most].at < span {
			t.Fatalf("%d entries within %d ns, the span is %d", most+1, e.at-all[i-most].at, span)
		}
	}
	if len(all) < most {
		t.Errorf("%d entries in all", len(all))
	}
}
