// Download fetches 300 items into items.txt, in order. After Ctrl-C, run it again: it goes on where the
// file ends. Run it by "go run ./examples/download".
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/escapement-go/escapement/examples/internal/get"
	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

// download appends items to f, a line each, until there are n. At any time f has the first items, whole.
func download(ctx context.Context, url string, n int, f io.ReadWriter) error {
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	next := bytes.Count(text, []byte("\n")) + 1
	limit := gate.NewWindow(100, time.Second, &gate.WindowOptions{UntilAnswer: true})
	limit.Hold(time.Second) // calls of the run before this one may still count
	g, _ := group.WithContext(ctx)
	// The source is up to 64 items ahead of the workers. Nothing is lost: what counts is the file.
	items := group.Generate(g, func(_ context.Context, send func(int) bool) error {
		for ; next <= n && send(next); next++ {
		}
		return nil
	})
	lines := group.Map(g, items, func(ctx context.Context, item int) (string, error) {
		answer, err := get.Text(ctx, http.DefaultClient, fmt.Sprintf("%s/items/%d", url, item))
		return fmt.Sprintf("%d %s\n", item, answer), err
	}, &group.Stage{Workers: 32, Gate: limit, Ordered: true})
	return group.ForEach(g, lines, func(_ context.Context, line string) error {
		_, err := io.WriteString(f, line)
		return err
	}, nil)
}

func main() {
	api, err := strictapi.Start(strictapi.Demo()) // allows 100 calls in any second, 32 in flight
	f, failed := os.OpenFile("items.txt", os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil || failed != nil {
		log.Fatal(err, failed)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := download(ctx, api.URL(), 300, f); err != nil {
		log.Fatal(err, "; ", api.Report())
	}
	fmt.Println(api.Report())
}
