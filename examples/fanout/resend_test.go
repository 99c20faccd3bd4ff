package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A request whose connection is cut on its second use is one that net/http would send again unseen.
func TestNothingIsSentUnseen(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "POST -H Idempotency-Key:1"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			url := remote(t, func(w http.ResponseWriter, r *http.Request) {
				if len(r.TransferEncoding) > 0 || r.ContentLength > 0 {
					t.Errorf("%s came with a body: %v, %d bytes", r.Method, r.TransferEncoding, r.ContentLength)
				}
				if n := calls.Add(1); n%2 == 0 {
					panic(http.ErrAbortHandler)
				}
			})
			o := play(t, t.Context(), url, strings.Fields("-n 4 -rate 1000/s -limit 1 -retries 3 -method "+method)...)
			if o.status != ok {
				t.Errorf("status %d, want 0", o.status)
			}
			wantRow(t, o.stderr, "by status", "200: 4")
			tries := int64(0)
			for _, l := range decode(t, o.stdout) {
				tries += int64(max(1, l.Tries))
			}
			if tries != calls.Load() {
				t.Errorf("%d attempts, and %d calls arrived", tries, calls.Load())
			}
		})
	}
}
