package strictapi_test

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

func TestLogAndReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strictapi.New(&strictapi.Options{Limit: strictapi.FixedWindow(3, time.Second), Ban: &strictapi.Ban{}})
		epoch := time.Now()
		want := []strictapi.Arrival{}
		for _, c := range []struct {
			at     time.Duration
			status int
		}{{700 * ms, 200}, {800 * ms, 200}, {900 * ms, 200}, {2000 * ms, 200}, {2000 * ms, 200},
			{2100 * ms, 200}, {2200 * ms, 429}, {2300 * ms, 403}} {
			sleepUntil(epoch, c.at)
			get(s, "")
			want = append(want, strictapi.Arrival{At: c.at, Status: c.status, Key: "192.0.2.1", Path: "/things/1"})
		}
		got := s.Log()
		if !slices.Equal(got, want) {
			t.Errorf("log\n%v, want\n%v", got, want)
		}
		got[0].Status = 0
		if s.Log()[0].Status != 200 {
			t.Error("Log returned the log itself, not a copy")
		}
		r := s.Report()
		if r.Calls != 8 || r.Refusals != 2 || r.Bans != 1 || r.PeakInFlight != 1 ||
			!maps.Equal(r.ByStatus, map[int]int{200: 6, 429: 1, 403: 1}) {
			t.Errorf("report %+v", r)
		}
		for window, want := range map[time.Duration]int{1: 2, 100 * ms: 2, 101 * ms: 3, time.Second: 5, time.Hour: 8} {
			if got := r.Worst(window); got != want {
				t.Errorf("Worst(%v) = %d, want %d", window, got, want)
			}
		}
	})
}

// The log grows by blocks, and is read while it grows.
func TestLogWhileCallsArrive(t *testing.T) {
	const callers, each = 8, 700
	s := strictapi.New(&strictapi.Options{Limit: strictapi.SlidingWindow(100, time.Hour)})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range each {
				get(s, "")
				if i%50 == 0 {
					all := s.Log()
					if !slices.IsSortedFunc(all, func(a, b strictapi.Arrival) int { return int(a.At - b.At) }) {
						t.Error("instants in the log decrease")
					}
					if n := s.Report().Calls; n < len(all) {
						t.Errorf("%d calls in a report after %d in the log", n, len(all))
					}
				}
			}
		})
	}
	wg.Wait()
	r := s.Report()
	if want := map[int]int{200: 100, 429: callers*each - 100}; !maps.Equal(r.ByStatus, want) {
		t.Errorf("by status %v, want %v", r.ByStatus, want)
	}
}
