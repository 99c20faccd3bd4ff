// Package costs_test holds limits of well-known APIs under which a call has several costs, each against a
// simulator of the API that is as strict as its documentation.
package costs_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/internal/get"
	"github.com/escapement-go/escapement/examples/internal/memnet"
	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// gitHub has the limits of the GitHub REST API: 900 points a minute, with 1 for a GET and 5 for a call that
// changes something, 100 calls at once, and 5,000 calls an hour. It counts calls when they arrive.
type gitHub struct {
	takes time.Duration // a call
	epoch time.Time

	mu           sync.Mutex // guards what is below
	points, hour *strictapi.Ledger
	inFlight     int
	busy         time.Duration // in all calls so far, answered or not
	last         time.Duration // instant of the last call
	refused      int
	answered     int
}

func newGitHub(takes time.Duration) *gitHub {
	return &gitHub{
		takes: takes, epoch: time.Now(),
		points: strictapi.NewLedger(900, time.Minute), hour: strictapi.NewLedger(5000, time.Hour),
	}
}

func points(method string) int {
	if method == http.MethodGet {
		return 1
	}
	return 5
}

func (s *gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if !s.arrive(points(r.Method)) {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock() // before the client can see the answer
	s.inFlight--
	s.answered++
}

func (s *gitHub) arrive(points int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Since(s.epoch)
	if s.inFlight >= 100 || s.points.Room(s.last) < points || s.hour.Room(s.last) < 1 {
		s.refused++
		return false
	}
	s.points.Add(s.last, points)
	s.hour.Add(s.last, 1)
	s.inFlight++
	s.busy += s.takes
	return true
}

// No call is refused, and what is used of the limit that binds is at least 97 %.
func TestGitHub(t *testing.T) {
	for _, tt := range []struct {
		binds string
		n     int
		takes time.Duration
		used  func(*gitHub) float64 // since the limit was first full
	}{
		{"points a minute", 4500, 300 * time.Millisecond, func(s *gitHub) float64 {
			return s.points.Used(time.Minute, s.last)
		}},
		{"calls an hour", 10_500, 300 * time.Millisecond, func(s *gitHub) float64 {
			return s.hour.Used(time.Hour, s.last)
		}},
		{"slots", 1500, 30 * time.Second, func(s *gitHub) float64 {
			return float64(s.busy) / float64(100*(s.last+s.takes)) // those of the last 30 s are not over
		}},
	} {
		t.Run(tt.binds, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newGitHub(tt.takes)
				memnet.Serve(t, api)
				until := &gate.WindowOptions{UntilAnswer: true}
				client := &http.Client{Transport: &retryhttp.Transport{
					Policy: &retry.Policy{Gate: gate.All(
						gate.NewWindow(900, time.Minute, until),
						gate.Each(gate.NewWindow(5000, time.Hour, until)),
						gate.Each(gate.NewConcurrency(100)),
					)},
					Cost: func(r *http.Request) []int { return []int{points(r.Method)} },
				}}
				g, ctx := group.WithContext(t.Context())
				for i := range tt.n {
					g.Go(func() error {
						if i%5 > 0 {
							return get.Call(ctx, client, memnet.URL)
						}
						req, err := http.NewRequestWithContext(ctx, http.MethodPost, memnet.URL, nil)
						if err != nil {
							return err
						}
						resp, err := client.Do(req)
						if err != nil {
							return err
						}
						return resp.Body.Close()
					})
				}
				if err := g.Wait(); err != nil {
					t.Error(err)
				}
				used := tt.used(api)
				t.Logf("%d calls in %v, %d points in the worst minute and %d calls in the worst hour, %.1f %% used",
					api.answered, api.last, api.points.Worst(), api.hour.Worst(), 100*used)
				if api.refused != 0 || api.answered != tt.n {
					t.Errorf("%d answered and %d refused, want %d and 0", api.answered, api.refused, tt.n)
				}
				if !(used >= 0.97 && used <= 1) {
					t.Errorf("%.4f used, want 0.97 to 1", used)
				}
			})
		})
	}
}
