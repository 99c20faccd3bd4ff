package retryhttp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// Without a gate only Retry-After matters, and with one RateLimit holds.
func TestRandomFields(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for seed := range 3000 {
			r := rand.New(rand.NewPCG(uint64(seed), 4))
			n := 1 + r.IntN(4)
			var answers []answer
			want := time.Duration(0)
			for i := range n {
				status := []int{429, 503, 500, 502, 425}[r.IntN(5)]
				if i == n-1 {
					status = []int{200, 404, 204}[r.IntN(3)]
				}
				which := r.IntN(8)
				reset := []time.Duration{0, 9, 7, 8, 33, 0, 0, 0}[which] * time.Second
				ra := time.Duration(0)
				fields := []string{"", "RateLimit: \"a\";r=0;t=9|RateLimit-Policy: \"a\";q=1;w=9", "RateLimit: limit=1, remaining=0, reset=7", "RateLimit-Remaining: 0|RateLimit-Reset: 8", "X-RateLimit-Remaining: 0|X-RateLimit-Reset: 33", "RateLimit: \"a\";r=x;t=-1", "RateLimit: ,,,", "RateLimit-Remaining: 99999999999999999999999|RateLimit-Reset: 99999999999999999999999"}[which]
				delay := time.Second
				switch r.IntN(4) {
				case 0:
					d := r.IntN(5)
					fields += fmt.Sprintf("|Retry-After: %d", d)
					ra = time.Duration(d) * time.Second
				case 1:
					fields += "|Retry-After: -3"
				case 2:
					d := time.Duration(r.IntN(5)-1) * time.Second
					now := time.Unix(1e9, 0).UTC()
					fields += "|Date: " + now.Format(http.TimeFormat) + "|Retry-After: " + now.Add(d).Format(http.TimeFormat)
					ra = d
				}
				if status == 429 && ra <= 0 {
					ra = reset
				}
				delay = max(delay, ra)
				if i < n-1 {
					want += delay
				}
				answers = append(answers, answer{status: status, fields: fields})
			}
			f := &far{answers: answers}
			tr := &retryhttp.Transport{Base: f, XRateLimit: retryhttp.XRateLimitSeconds, Policy: &retry.Policy{Attempts: 9, Backoff: retry.Constant(time.Second), Clock: b.Clock()}}
			at := b.Now()
			done := make(chan struct{})
			go func() {
				defer close(done)
				resp, err := tr.RoundTrip(request(b, "GET", "", true))
				if err != nil {
					b.Error(err)
					return
				}
				if got := b.Now() - at; got != want {
					b.Errorf("seed %d: %v, want %v: %v", seed, got, want, answers)
				}
				if _, ok := gate.PassOf(resp.Request.Context()); ok {
					b.Error("a pass without a gate")
				}
				slurp(b, resp)
			}()
			for {
				b.Settle()
				select {
				case <-done:
				default:
					b.Advance(time.Second)
					continue
				}
				break
			}
			if f.attempts() != n {
				b.Errorf("seed %d: %d attempts, want %d", seed, f.attempts(), n)
			}
		}
	})
}

type userKey struct{}

// Passes of responses, costs, settling and a policy changed after the call.
func TestRandomPasses(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		for seed := range 3000 {
			r := rand.New(rand.NewPCG(uint64(seed), 5))
			win := gate.NewWindow(1000, time.Hour, &gate.WindowOptions{Clock: b.Clock()})
			slots := gate.NewConcurrency(50)
			var g gate.Gate = win
			useAll := r.IntN(2) == 0
			each := useAll && r.IntN(2) == 0
			ctx := context.WithValue(context.Background(), userKey{}, seed)
			cost := 1 + r.IntN(40)
			costs := []int{cost}
			if useAll {
				g = gate.All(win, slots)
				if each {
					costs = []int{cost, 1 + r.IntN(3)}
				}
			}
			slotCost := 0
			if useAll {
				slotCost = costs[len(costs)-1]
			}
			tr := &retryhttp.Transport{}
			how := r.IntN(4)
			var outer gate.Pass
			og := gate.NewWindow(10, time.Hour, &gate.WindowOptions{Clock: b.Clock()})
			if r.IntN(3) == 0 {
				outer, _ = og.Enter(ctx, 1)
				ctx = gate.WithPass(ctx, outer)
			}
			switch how {
			case 0:
				ctx = retry.WithCost(ctx, costs...)
			case 1:
				ctx = retry.WithCost(ctx, 7) // is beaten by Cost
				tr.Cost = func(*http.Request) []int { return costs }
			case 2:
				tr.Cost = func(*http.Request) []int { return costs }
			case 3:
				ctx = retry.WithCost(ctx, costs...)
				tr.Cost = func(*http.Request) []int { return nil }
			}
			fails := r.IntN(3)
			var answers []answer
			for range fails {
				answers = append(answers, answer{status: []int{500, 502}[r.IntN(2)]})
			}
			last := []int{200, 404, 204, 501}[r.IntN(4)]
			answers = append(answers, answer{status: last})
			inner := gate.NewWindow(1000, time.Hour, &gate.WindowOptions{Clock: b.Clock()})
			innerPolicy := atOnce()
			innerPolicy.Clock = b.Clock()
			innerPolicy.Gate = inner
			f := &far{answers: answers, during: func(n int, req *http.Request) {
				if req.Context().Value(userKey{}) != seed {
					b.Error("value lost")
				}
				p, ok := gate.PassOf(req.Context())
				if !ok || p == outer {
					b.Errorf("seed %d: no pass in the attempt", seed)
				}
				if err := retry.Run(req.Context(), innerPolicy, func(context.Context) error { return nil }); err != nil {
					b.Errorf("seed %d: inner: %v", seed, err)
				}
			}}
			p := atOnce()
			p.Clock = b.Clock()
			byGate := r.IntN(2) == 0
			if byGate {
				tr.Gate = func(*http.Request) gate.Gate { return g }
			} else {
				p.Gate = g
			}
			if r.IntN(2) == 0 {
				p.AttemptTimeout = time.Hour
			}
			tr.Base, tr.Policy = f, p
			req := request(b, "PUT", "x", true).WithContext(ctx)
			before := *req
			resp, err := tr.RoundTrip(req)
			if err != nil {
				b.Fatal(seed, err)
			}
			if before.Method != req.Method || before.Context() != req.Context() || before.URL != req.URL || before.Body != req.Body {
				b.Error("request changed")
			}
			if resp.Request == nil || resp.Request.URL.String() != req.URL.String() || resp.Request.Method != "PUT" || resp.Request.Context().Value(userKey{}) != seed {
				b.Errorf("seed %d: %+v", seed, resp.Request)
			}
			total := (fails + 1) * cost
			if got := win.Stats().InUse; got != total {
				b.Errorf("seed %d how %d: window %d, want %d", seed, how, got, total)
			}
			if got := inner.Stats().InUse; got != fails+1 {
				b.Errorf("seed %d how %d: inner window %d, want %d", seed, how, got, fails+1)
			}
			if useAll && last == 200 && slots.Stats().InUse != slotCost {
				b.Errorf("seed %d: slots %d, want %d", seed, slots.Stats().InUse, slotCost)
			}
			// change the policy
			if r.IntN(2) == 0 {
				*p = retry.Policy{Gate: inner, AttemptTimeout: -1, MaxRetryAfter: 1, Elapsed: -1}
			}
			pass, ok := gate.PassOf(resp.Request.Context())
			if !ok || pass == outer {
				b.Errorf("seed %d: no pass of the response", seed)
			}
			actual := r.IntN(60)
			settle := func() {
				if each {
					pass.SettleEach(actual, costs[1])
				} else {
					pass.Settle(actual)
				}
			}
			early := r.IntN(2) == 0
			if early {
				settle()
			}
			slurp(b, resp)
			if !early {
				settle()
			}
			if _, ok := gate.PassOf(resp.Request.Context()); !ok {
				b.Error("no pass after the end")
			}
			if got, want := win.Stats().InUse, fails*cost+actual; got != want {
				b.Errorf("seed %d: window %d after, want %d", seed, got, want)
			}
			if slots.Stats().InUse != 0 {
				b.Errorf("seed %d: slots %d at the end", seed, slots.Stats().InUse)
			}
			func() {
				defer func() {
					if recover() == nil {
						b.Errorf("seed %d: second Settle went unnoticed", seed)
					}
				}()
				settle()
			}()
			if resp.Body.Close() != nil || slots.Stats().InUse != 0 || og.Stats().InUse > 1 {
				b.Error("second Close")
			}
			if s, _ := gate.StatsOf(g); s.Granted != uint64(fails+1) {
				b.Errorf("seed %d: granted %d", seed, s.Granted)
			}
		}
	})
}
