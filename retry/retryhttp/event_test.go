package retryhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// A connection that broke, upon which the request is sent again, is neither a failure nor a
// throttle in what OnRetry is told later; the second in a row is a failure.
func TestEventAfterLostConnection(t *testing.T) {
	var arrived atomic.Int64
	does := []int{200, 0, 500, 200, 200, 0, 0, 200} // 0: the connection is cut
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := does[arrived.Add(1)-1]
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
	}))
	srv.Config.ErrorLog = quiet
	srv.Start()
	defer srv.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	p := atOnce()
	p.Gate = gate.NewConcurrency(1)
	var told []string
	p.OnRetry = func(e retry.Event) { told = append(told, fmt.Sprint(e.Attempt, e.Throttles, e.Throttled, e.Err)) }
	tr := &retryhttp.Transport{Base: base, Policy: p}
	calls(t, tr, 4, "GET", srv.URL, "", "")
	want := []string{
		"1 0 false the response was 500 Internal Server Error",
		"1 0 false EOF", // on a connection of its own
	}
	if got := fmt.Sprint(told); arrived.Load() != 8 || len(told) != 2 || told[0] != want[0] || told[1][:9] != want[1][:9] {
		t.Errorf("%d arrived, told %v, want %v", arrived.Load(), got, want)
	}
}
