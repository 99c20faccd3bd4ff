package retryhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/within"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// Each request has its cost, which every attempt pays, and the answer's pass settles what it really cost,
// also when the body is over.
func TestCost(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		io.WriteString(w, "70")
	}))
	defer s.Close()
	requests, tokens := gate.NewWindow(100, time.Hour, nil), gate.NewWindow(9000, time.Hour, nil)
	slots := gate.NewConcurrency(4)
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: &retry.Policy{Gate: gate.All(gate.Each(requests), tokens, gate.Each(slots)), Backoff: retry.Constant(0)},
		Cost: func(r *http.Request) []int {
			n, _ := strconv.Atoi(r.Header.Get("Tokens"))
			return []int{1, n, 1}
		},
	}}
	used := func() [3]int {
		return [3]int{requests.Stats().InUse, tokens.Stats().InUse, slots.Stats().InUse}
	}
	req, _ := http.NewRequest("GET", s.URL, nil)
	req.Header.Set("Tokens", "500")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if got := used(); got != [3]int{2, 500, 1} {
		t.Errorf("used %v after the answer of the second attempt", got)
	}
	p, ok := gate.PassOf(resp.Request.Context())
	if !ok {
		t.Fatal("an answer without a pass")
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if got := used(); got != [3]int{2, 500, 0} {
		t.Errorf("used %v after the body", got)
	}
	n, _ := strconv.Atoi(string(body))
	p.SettleEach(1, n, 1)
	if got := used(); got != [3]int{2, 70, 0} {
		t.Errorf("used %v, settled", got)
	}
	// Without Cost, it is what the context says.
	client.Transport.(*retryhttp.Transport).Cost = nil
	req = req.WithContext(retry.WithCost(req.Context(), 30))
	if resp, err = client.Do(req); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if got := used(); got != [3]int{3, 100, 0} {
		t.Errorf("used %v, by the context", got)
	}
	// The context of the answer's request goes on, and the costs of it are paid.
	ctx := resp.Request.Context()
	if err := ctx.Err(); err != nil {
		t.Errorf("after the attempt, the context of the answer's request: %v", err)
	}
	if costs := within.Costs(ctx); len(costs) > 0 {
		t.Errorf("the context of the answer's request has the costs %v", costs)
	}
}
