package strictapi_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

func TestLedger(t *testing.T) {
	l := strictapi.NewLedger(10, time.Second)
	room := func(at time.Duration, want int) {
		t.Helper()
		if got := l.Room(at); got != want {
			t.Errorf("at %v there is room for %d, want %d", at, got, want)
		}
	}
	wait := func(at time.Duration, n int, want time.Duration) {
		t.Helper()
		if got := l.Wait(at, n); got != want {
			t.Errorf("at %v %d must wait for %v, want %v", at, n, got, want)
		}
	}
	room(0, 10)
	l.Add(0, 4)
	l.Add(300*ms, 3)
	room(300*ms, 3)
	wait(300*ms, 3, 0)
	wait(300*ms, 4, 700*ms)
	wait(300*ms, 7, 700*ms)
	wait(300*ms, 8, time.Second)
	wait(300*ms, 99, time.Second) // until nothing counts
	room(time.Second-1, 3)
	room(time.Second, 7)
	l.Add(time.Second, 9)
	room(time.Second, -2)
	wait(time.Second, 1, 300*ms)
	room(1300*ms, 1)
	room(time.Hour, 10)
	if got := l.Worst(); got != 12 {
		t.Errorf("the worst is %d, want 12", got)
	}
	// 4 for 1 s, 3 for 1 s, and 9 for 1 s, of 10.
	for _, tt := range []struct {
		from, until time.Duration
		want        float64
	}{{0, time.Second, 0.61}, {0, 2 * time.Second, 0.8}, {time.Hour, 2 * time.Hour, 0}, {1, 1, 0}, {2, 1, 0}} {
		if got := l.Used(tt.from, tt.until); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("used %v from %v until %v, want %v", got, tt.from, tt.until, tt.want)
		}
	}
}

// After the wait there is room, and just before there is none.
func TestLedgerWait(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	l := strictapi.NewLedger(50, time.Second)
	now := time.Duration(0)
	for range 10_000 {
		now += time.Duration(random.IntN(int(50 * ms)))
		n := 1 + random.IntN(20)
		wait := l.Wait(now, n)
		if (wait == 0) != (l.Room(now) >= n) {
			t.Fatalf("room for %d, and %d must wait for %v", l.Room(now), n, wait)
		}
		if wait > 0 && l.Room(now+wait-1) >= n {
			t.Fatalf("there is room for %d before %v are over", n, wait)
		}
		if now += wait; l.Room(now) < n {
			t.Fatalf("room for %d after %v, want %d", l.Room(now), wait, n)
		}
		l.Add(now, n)
	}
	if l.Worst() > 50 || l.Worst() < 45 {
		t.Errorf("the worst is %d", l.Worst())
	}
}
