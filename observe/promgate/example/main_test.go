package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// What it prints is what Prometheus reads, and has gates, keys, a stage and retries.
func TestPrints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(2*time.Second, cancel)
		var out bytes.Buffer
		if err := run(ctx, "", &out); err != nil {
			t.Fatal(err)
		}
		check(t, out.String())
	})
}

// With -http it serves the same until the context ends.
func TestServes(t *testing.T) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	go func() { done <- run(ctx, addr, io.Discard) }()
	for try := 0; ; try++ {
		resp, err := http.Get("http://" + addr + "/metrics")
		if err == nil {
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%s, %v: %s", resp.Status, err, text)
			}
			break
		}
		if try == 100 {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // until the server listens
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func check(t *testing.T, text string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gate_granted_total", "keyed_granted_total", "key_granted_total", "stage_items_total", "retry_calls_total"} {
		f := families["escapement_"+name]
		if f == nil || f.Metric[0].Untyped.GetValue() == 0 {
			t.Errorf("%s: %v", name, f)
		}
	}
}
