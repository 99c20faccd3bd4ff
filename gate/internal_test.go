package gate

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/internal/schedule"
	"github.com/escapement-go/escapement/internal/timing"
	"github.com/escapement-go/escapement/pace"
)

// The log agrees with a plain list of runs, whatever is added, settled and forgotten.
func TestWindowLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			number uint64
			at     int64
			tokens int
		}
		var l windowLog
		var all []entry // those that count
		span := rapid.Int64Range(1, 1000).Draw(t, "span")
		now := int64(0)
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				now += rapid.Int64Range(0, span).Draw(t, "after")
				l.expire(now, span)
				all = slices.DeleteFunc(all, func(e entry) bool { return e.at+span <= now })
			case 1, 2:
				if len(all) > 0 {
					e := &all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
					e.tokens = rapid.IntRange(0, 9).Draw(t, "actual")
					l.change(now, e.number, e.tokens)
				}
			default:
				cost := rapid.IntRange(1, 9).Draw(t, "cost")
				all = append(all, entry{l.push(now, cost), now, cost})
			}
			sum := 0
			for _, e := range all {
				sum += e.tokens
			}
			if l.used != sum {
				t.Fatalf("%d tokens are used, want %d", l.used, sum)
			}
			if sum == 0 {
				continue
			}
			token := rapid.IntRange(1, sum).Draw(t, "token")
			want := token
			for _, e := range all {
				if want -= e.tokens; want <= 0 {
					if got := l.holder(token); got != e.at {
						t.Fatalf("token %d of %d is held from %d on, want %d", token, sum, got, e.at)
					}
					break
				}
			}
		}
	})
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
