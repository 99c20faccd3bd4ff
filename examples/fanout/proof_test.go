package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// within answers calls by the API in the same process, without a network: in a bubble that is
// the only way that takes no time but the API's.
type within struct{ api *strictapi.Server }

func (t within) RoundTrip(req *http.Request) (*http.Response, error) {
	there := req.Clone(req.Context())
	there.RequestURI, there.RemoteAddr = req.URL.RequestURI(), "127.0.0.1:1"
	there.Body = http.NoBody
	w := httptest.NewRecorder()
	t.api.ServeHTTP(w, there)
	return w.Result(), nil
}

// The API holds 60 % of what the client was told, 64 calls may be in flight, and the latency is 20 of the
// client's intervals. Every call is answered 200 in the end, nobody is banned, at least 90 % of what
// the API would have allowed is used, and at most 5 % of the calls are refused.
//
// Whatever the kind of limit, each refusal names whole seconds: 60 calls that might have gone through.
func TestUnforeseenLimit(t *testing.T) {
	for name, args := range map[string]string{
		"sliding window":                      "",
		"sliding window, a window of its own": "-guard 20ms",
		"fixed window":                        "-api fixed",
		"leaky bucket":                        "-api leaky",
		"seconds are a few intervals":         "-rate 10/s -api-latency 2s -n 1000 -guard 100ms",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, err := parse(strings.Fields("-api-mood below -adaptive -retries 3 -limit 64 -rate 100/s -api-latency 200ms -n 3000 "+args), io.Discard)
				if err != nil {
					t.Fatal(err)
				}
				api := strictapi.New(&strictapi.Options{
					Limit:       o.api.strict(o.n),
					Concurrency: o.api.slots,
					Latency:     o.api.latencies(),
					Ban:         o.api.ban(),
				})
				f := newFanout(o, []string{"http://api/"}, o.n)
				f.calls.client.Transport = within{api}
				results := make(chan result)
				go func() {
					defer close(results)
					if err := f.run(t.Context(), t.Context(), results); err != nil {
						t.Error(err)
					}
				}()
				for r := range results {
					if r.Status != http.StatusOK {
						t.Errorf("answered %d", r.Status)
					}
				}
				r := api.Report()
				g := newGoodput(api.Log(), o.api.eras(o.n), o.rate.Interval())
				t.Log(g, r.ByStatus)
				if r.ByStatus[http.StatusOK] != o.n || r.Bans != 0 {
					t.Errorf("by status %v, %d bans; want %d with status 200 and no ban", r.ByStatus, r.Bans, o.n)
				}
				if used := 100 * float64(g.good) / g.allowed; used < 90 {
					t.Errorf("%.1f %% of the limit used, want at least 90", used)
				}
				if share := 100 * float64(g.refused) / float64(g.calls); share > 5 {
					t.Errorf("%.1f %% refused, want at most 5", share)
				}
				time.Sleep(time.Minute) // the window lets its last calls go
			})
		})
	}
}
