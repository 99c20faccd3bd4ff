package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/examples/internal/memnet"
	"github.com/escapement-go/escapement/examples/strictapi"
)

var errInterrupted = errors.New("interrupted")

// A run is interrupted, and the next one goes on at once: the file has each item once, in order, and the
// two runs together keep the limit.
func TestResumes(t *testing.T) {
	const n = 400
	file := filepath.Join(t.TempDir(), "items.txt")
	synctest.Test(t, func(t *testing.T) {
		api := strictapi.New(strictapi.Demo())
		memnet.Serve(t, api)
		run := func(ctx context.Context) (items int, err error) {
			f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			err = download(ctx, memnet.URL, n, f)
			text, failed := os.ReadFile(file)
			if failed != nil {
				t.Fatal(failed)
			}
			for line := range strings.Lines(string(text)) {
				items++
				if want := strconv.Itoa(items) + ` {"call":`; !strings.HasPrefix(line, want) || !strings.HasSuffix(line, "}\n") {
					t.Errorf("line %d is %q", items, line)
				}
			}
			return items, err
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2300*time.Millisecond, func() { cancel(errInterrupted) })
		if items, err := run(ctx); !errors.Is(err, errInterrupted) || items < 100 || items >= n {
			t.Errorf("interrupted: %d items, error %v", items, err)
		}
		for range 2 { // the second time there is nothing left to do
			if items, err := run(t.Context()); items != n || err != nil {
				t.Errorf("%d items, error %v; want %d", items, err, n)
			}
		}
		r := api.Report()
		t.Log(r)
		if r.Refusals != 0 || r.Calls > n+32+64 {
			t.Errorf("refused, or more calls made twice than the stage holds items: %v", r)
		}
	})
}

// A failure ends the run, and what came before it is in the file.
func TestFails(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "items.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	synctest.Test(t, func(t *testing.T) {
		o := strictapi.Demo()
		o.Limit = strictapi.SlidingWindow(50, time.Hour)
		memnet.Serve(t, strictapi.New(o))
		if err := download(t.Context(), memnet.URL, 100, f); err == nil || !strings.Contains(err.Error(), "429") {
			t.Errorf("error %v, want a 429", err)
		}
	})
	text, err := os.ReadFile(f.Name())
	if items := strings.Count(string(text), "\n"); err != nil || items > 50 {
		t.Errorf("%d items, error %v; want at most 50", items, err)
	}
}
