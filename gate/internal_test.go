package gate

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/pace"
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
		number uint32
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
					if l.run(number).tag.Load() != number+1 {
						e.at = unknown // this goroutine was away, and the place has been used again
					}
					lists[i] = append(lists[i], e)
				}
				if i == 0 && found == busy {
					d := g.n.lock()
					now := g.n.lane.read(d)
					if m := g.member(); m.due(now, now, 1) <= now {
						number := m.take(now, now, 1)
						lists[i] = append(lists[i], entry{uint32(number), now})
					}
					d.unlock()
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b entry) int { return int(a.number) - int(b.number) })
	for i, e := range all {
		if e.number != uint32(i+1) {
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

// Whatever happens under the lock leaves a trace in the state, so that an entry that was
// under way meanwhile starts again: also where the number of the next run comes back.
func TestWindowLogEpoch(t *testing.T) {
	l := newWindowLog(8)
	l.open()
	clk := timing.New(nil)
	first, _ := l.take(clk, int64(time.Hour), 10, 1)
	before := l.state.Load()
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"nothing", func() {}},
		{"settled", func() { l.settle(first, 3) }},
		{"trimmed", func() {
			l.settle(first, -4)
			_, again := l.push(clk.Now(), 5)
			if again != first {
				t.Errorf("number %d, want that of the run that was forgotten, %d", again, first)
			}
			l.settle(first, -1)
		}},
	} {
		l.close()
		c.change()
		l.open()
		if after := l.state.Load(); after == before || uint32(after) != uint32(before) {
			t.Errorf("%s: state %x, was %x: want another one with the same number", c.name, after, before)
		}
	}
}

// Runs that are settled to nothing are forgotten under the lock while somebody who began before
// finds that they no longer count: what is gone never gets ahead of what is to come.
func TestWindowLogSettledAtTheEndOfTheSpan(t *testing.T) {
	const span = int64(time.Microsecond)
	clk := timing.New(nil)
	l := newWindowLog(8)
	var over atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !over.Load() {
				l.take(clk, span, 4, 4)
				runtime.Gosched() // or whoever waits for a processor waits for 10 ms
			}
		})
	}
	for range 30_000 {
		l.close()
		now := clk.Now()
		l.expire(now, span)
		next, number := l.push(now, 1)
		if next != l {
			t.Fatal("the log has grown")
		}
		l.open()
		for clk.Now() < now+span {
		}
		l.close()
		l.settle(number, -1)
		if gone, next := l.bounds(); int32(next-gone) < 0 {
			t.Errorf("gone are those before %d, and the next is %d", gone, next)
			break
		}
	}
	over.Store(true)
	wg.Wait()
}

// A place in the log is used again only when it is known to everybody that its run is gone.
func TestWindowLogWritesOverWhatIsGone(t *testing.T) {
	const span = int64(time.Second)
	m := clock.NewMock()
	clk := timing.New(m)
	l := newWindowLog(8)
	l.open()
	for i := range 7 {
		if _, found := l.take(clk, span, 7, 1); found != picked {
			t.Fatalf("entry %d of 7: %v", i, found)
		}
	}
	m.Add(time.Minute)
	if _, found := l.take(clk, span, 7, 1); found != busy || l.run(0).tag.Load() != 1 {
		t.Errorf("%v, and the place of the run before the first that may count has tag %d", found, l.run(0).tag.Load())
	}
	l.close()
	l.expire(clk.Now(), span)
	l.open()
	for i := range 7 {
		if _, found := l.take(clk, span, 7, 1); found != picked {
			t.Fatalf("entry %d of 7, a minute later: %v", i, found)
		}
	}
}

// The numbers of the runs wrap around.
func TestWindowLogWraps(t *testing.T) {
	l := newWindowLog(8)
	const last = 1<<32 - 1
	l.write(last-3, 0, 0)
	l.gone.Store(last - 2)
	l.state.Store(shut | (last - 2))
	l.open()
	clk := timing.New(nil)
	for i := range 10 {
		number, found := l.take(clk, int64(time.Hour), 10, 1)
		if found == busy {
			l.close()
			var larger *windowLog
			larger, number = l.push(clk.Now(), 1)
			l = larger
			l.open()
		}
		if want := uint32(int64(last) - 2 + int64(i)); number != want {
			t.Fatalf("entry %d has number %d", i, number)
		}
	}
	if _, found := l.take(clk, int64(time.Hour), 10, 1); found != full {
		t.Errorf("an eleventh of ten: %v", found)
	}
	l.close()
	if used := l.used(l.gone.Load()); used != 10 {
		t.Errorf("%d used, want 10", used)
	}
}

// A run that nobody has written yet is taken for written under no number, also where those wrap
// around.
func TestWindowLogUnwritten(t *testing.T) {
	l := newWindowLog(8)
	for number := int64(-20); number <= 20; number++ {
		if number != 0 && l.run(uint32(number)).tag.Load() == uint32(number)+1 {
			t.Errorf("number %d", uint32(number))
		}
	}
}

// The first who wait are woken by a bell, and the alarm calls its function for those behind
// them alone. Whoever has gone, or was sent away, leaves the bell to others.
func TestBellsAreForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewRate(pace.PerSecond(100), nil)
		calls := 0
		g.n.alarm = timing.NewAlarm(g.clk, func() {
			calls++
			g.n.ring()
		})
		for round := range 3 {
			g.Allow()
			ctx, cancel := context.WithCancel(t.Context())
			const behind = 6
			for i := range crowd + behind {
				ctx := ctx
				if i >= behind {
					ctx = t.Context()
				}
				go g.Wait(ctx)
				synctest.Wait() // in this order
			}
			cancel() // they had bells
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if s := g.Stats(); s.Waiting > 0 || g.n.lane.belled != 0 {
				t.Fatalf("round %d: %d wait, bells %b", round, s.Waiting, g.n.lane.belled)
			}
			if want := behind * (round + 1); calls != want {
				t.Errorf("round %d: the alarm has called its function %d times, want %d", round, calls, want)
			}
		}
	})
}

// Who has lost a race by an old reading of the clock is not refused a token that is there by now.
func TestContendReadsAgain(t *testing.T) {
	mock := clock.NewMock()
	g := NewRate(pace.PerSecond(1000), &RateOptions{Clock: mock})
	c, old := g.cell.Load(), g.clk.Now()
	mock.Add(time.Second)
	if !g.Allow() {
		t.Fatal("the first is refused")
	}
	if v := g.contend(c, old, 1); v != schedule.Refused {
		t.Errorf("at once: %v, want it refused", v)
	}
	mock.Add(time.Millisecond)
	g.contest.last.Store(0) // nobody has lost just before
	if v := g.contend(c, old, 1); v != schedule.Taken {
		t.Errorf("when the token is there: %v, want it taken", v)
	}
}
