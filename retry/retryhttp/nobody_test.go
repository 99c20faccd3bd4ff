package retryhttp_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/escapement-go/escapement/retry/retryhttp"
)

// A request without a body is sent again without one, also where GetBody would make one.
func TestNoBodyIsNotMade(t *testing.T) {
	for name, body := range map[string]io.ReadCloser{"nil": nil, "NoBody": http.NoBody} {
		f := &far{answers: []answer{{status: 503}, {status: 200}}}
		req := request(t, "PUT", "", true)
		made := 0
		req.Body, req.GetBody = body, func() (io.ReadCloser, error) {
			made++
			return io.NopCloser(strings.NewReader("made")), nil
		}
		resp, err := (&retryhttp.Transport{Base: f, Policy: atOnce()}).RoundTrip(req)
		if err != nil || resp.StatusCode != 200 || made != 0 {
			t.Errorf("%s: %v; %d bodies were made", name, err, made)
			continue
		}
		resp.Body.Close()
		if got := slices.Compact(f.sent); len(got) != 1 || strings.TrimSpace(got[0]) != "PUT" {
			t.Errorf("%s: sent %q", name, f.sent)
		}
	}
}
