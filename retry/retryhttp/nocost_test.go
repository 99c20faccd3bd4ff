package retryhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// A Cost that returns no cost means the cost of the context, or 1.
func TestNoCost(t *testing.T) {
	for _, costs := range [][]int{nil, {}} {
		window := gate.NewWindow(10, time.Hour, nil)
		client := &http.Client{Transport: &retryhttp.Transport{
			Base:   base(func(req *http.Request) (*http.Response, error) { return answered(req, 200, ""), nil }),
			Policy: &retry.Policy{Gate: window},
			Cost:   func(*http.Request) []int { return costs },
		}}
		for i, want := range []int{1, 4} {
			req, err := http.NewRequest("GET", "http://far.test/", nil)
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				req = req.WithContext(retry.WithCost(t.Context(), 3))
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if used := window.Stats().InUse; used != want {
				t.Errorf("%v, call %d: %d in use, want %d", costs, i+1, used, want)
			}
		}
	}
}
