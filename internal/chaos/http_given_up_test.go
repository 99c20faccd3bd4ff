package chaos_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// The doc of StatusError: it is "a response that was discarded for another attempt which then did
// not come about, because the context ended the call or the body could not be made again".
func TestStatusErrorWhenBodyCannotBeMadeAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }))
	defer server.Close()
	req, _ := http.NewRequest("PUT", server.URL, strings.NewReader("body"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("GetBody fails") }
	_, err := new(retryhttp.Transport).RoundTrip(req)
	var status *retryhttp.StatusError
	if !errors.As(err, &status) || status.StatusCode != 429 {
		t.Errorf("the error has no *StatusError of the 429: %v", err)
	}
}

// A response that was handed out with what was kept of its body is one like any other: once closed, it
// can't be read.
func TestKeptBodyIsClosed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(503)
		io.WriteString(w, "kept")
	}))
	defer server.Close()
	for _, read := range []int{0, 2} {
		tr := &retryhttp.Transport{Policy: &retry.Policy{Elapsed: time.Minute, Gate: gate.NewRate(pace.PerHour(1), nil), Backoff: retry.Constant(0)}}
		req, _ := http.NewRequest("GET", server.URL, nil)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(io.LimitReader(resp.Body, int64(read)))
		resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 9)); string(got) != "kept"[:read] || n > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("read %q, and %d bytes after Close with %v", got, n, err)
		}
	}
}
