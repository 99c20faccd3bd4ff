package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// api has limits on requests, tokens and slots.
type api struct {
	requests, tokens *gate.Window
	slots            *gate.Concurrency
	all              *gate.Composite
}

func newAPI(b *bubble.B) *api {
	o := &gate.WindowOptions{}
	if b != nil {
		o.Clock = b.Clock()
	}
	a := &api{requests: gate.NewWindow(100, time.Hour, o), tokens: gate.NewWindow(1000, time.Hour, o), slots: gate.NewConcurrency(4)}
	a.all = gate.All(gate.Each(a.requests), a.tokens, gate.Each(a.slots))
	return a
}

func (a *api) want(t testing.TB, what string, want ...int) {
	t.Helper()
	got := []int{a.requests.Stats().InUse, a.tokens.Stats().InUse, a.slots.Stats().InUse}
	if !slices.Equal(got, want) {
		t.Errorf("%s: requests, tokens and slots in use are %v, want %v", what, got, want)
	}
}

// Jobs enter with a cost for each gate, and settle what they have cost.
func TestPassOfJobs(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		a := newAPI(b)
		g, _ := group.WithContext(context.Background())
		g.SetGate(a.all)
		for i := range 20 {
			g.GoEach(func(ctx context.Context) error {
				p, ok := gate.PassOf(ctx)
				if !ok {
					return errors.New("no pass")
				}
				b.Sleep(time.Second)
				p.SettleEach(1, i, i%2)
				return nil
			}, 1, 40, i%2)
		}
		for range 20 {
			b.Advance(time.Second)
		}
		if err := g.Wait(); err != nil {
			b.Error(err)
		}
		a.want(b, "jobs", 20, 190, 0)
		for _, costs := range [][]int{{}, {1, 2}, {0, 0, 0}, {1, -1, 1}} {
			func() {
				defer func() {
					if recover() == nil {
						b.Errorf("GoEach with %v does not panic", costs)
					}
				}()
				g.GoEach(func(context.Context) error { return nil }, costs...)
			}()
		}
		a.want(b, "bad jobs", 20, 190, 0)
	})
}

// Each call of a stage has the pass of its item, which can be settled after the stage has left.
func TestPassOfItems(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		a := newAPI(b)
		g, _ := group.WithContext(context.Background())
		items := group.From(g, slices.Values([]int{10, 20, 30, 40, 50}))
		f := func(ctx context.Context, n int) (gate.Pass, error) {
			p, ok := gate.PassOf(ctx)
			if !ok {
				return p, errors.New("no pass")
			}
			if n == 20 {
				p.Settle(5)
			}
			return p, nil
		}
		passes, err := group.Collect(g, group.Map(g, items, f, &group.Stage{Workers: 3, Ordered: true, Gate: a.all}, func(n int) int { return n }))
		if err != nil {
			b.Fatal(err)
		}
		a.want(b, "left", 5, 135, 0)
		for i, p := range passes {
			if i != 1 {
				p.Settle(i)
			}
		}
		a.want(b, "settled", 5, 0+5+2+3+4, 0)
		g.Wait()
	})
}

// Every attempt pays the costs of its call, and settles for itself. One that was throttled gets its tokens
// back. Calls inside cost what they say themselves.
func TestPassOfAttempts(t *testing.T) {
	bubble.Real(t, func(b *bubble.B) {
		a, inner := newAPI(b), newAPI(b)
		outer := &retry.Policy{Gate: a.all, Backoff: retry.Constant(time.Second)}
		within := &retry.Policy{Gate: inner.all}
		attempts := 0
		_, err := retry.Do(retry.WithCost(context.Background(), 1, 300, 1), outer, func(ctx context.Context) (int, error) {
			attempts++
			a.want(b, "under way", attempts, []int{0, 300, 300, 310}[attempts], 1)
			p, ok := gate.PassOf(ctx)
			if !ok {
				return 0, errors.New("no pass")
			}
			if _, err := retry.Do(ctx, within, func(ctx context.Context) (int, error) {
				q, _ := gate.PassOf(ctx)
				q.Settle(7)
				return 0, nil
			}); err != nil {
				return 0, err
			}
			switch attempts {
			case 1:
				return 0, gate.Throttled(0, errors.New("429"))
			case 2:
				p.SettleEach(1, 10, 1)
				return 0, errors.New("lost")
			}
			p.SettleEach(1, 50, 1)
			return 1, nil
		})
		if err != nil {
			b.Error(err)
		}
		a.want(b, "done", 3, 60, 0)
		inner.want(b, "inside", 3, 21, 0)
		func() {
			defer func() {
				if recover() == nil {
					b.Error("a wrong number of costs does not panic")
				}
			}()
			retry.Do(retry.WithCost(context.Background(), 1, 2), outer, func(context.Context) (int, error) { return 0, nil })
		}()
		a.want(b, "a wrong number of costs", 3, 60, 0)
	})
}

// The answer's request has the pass, also when the body is over.
func TestPassOfResponses(t *testing.T) {
	a := newAPI(nil)
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		io.WriteString(w, "forty-two")
	}))
	defer server.Close()
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: &retry.Policy{Gate: a.all, Backoff: retry.Constant(0)},
		Cost:   func(r *http.Request) []int { return []int{1, 100 * len(r.URL.Path), 1} },
	}}
	for i := range 3 {
		resp, err := client.Get(server.URL + "/ab")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		a.want(t, "before it is settled", 2*(i+1), 300+9*i, 0)
		p, ok := gate.PassOf(resp.Request.Context())
		if !ok {
			t.Fatal("no pass")
		}
		p.SettleEach(1, len(body), 1)
		a.want(t, "settled", 2*(i+1), 9*(i+1), 0)
	}
	resp, err := (&http.Client{Transport: &retryhttp.Transport{Policy: &retry.Policy{Gate: a.all}, Cost: func(*http.Request) []int { return []int{1, 2000, 1} }}}).Get(server.URL)
	if err == nil {
		resp.Body.Close()
	}
	if large := (*gate.CapacityError)(nil); !errors.As(err, &large) || !strings.Contains(err.Error(), "gate 2, a Window of 1000 per 1h0m0s") {
		t.Errorf("error %v", err)
	}
	a.want(t, "refused", 6, 27, 0)
}
