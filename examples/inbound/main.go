// Inbound limits the clients of an HTTP server, each by itself. Run it by "go run ./examples/inbound".
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
)

// limit lets each client make 5 calls at once and one a second from then on, and answers 429 to the others.
func limit(next http.Handler) http.Handler {
	clients := gate.NewKeyed(func(string) gate.Gate {
		return gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 5})
	}, nil) // nil: at most 65,536 clients are remembered
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := r.Header.Get("Api-Key") // check it first, or a client takes another key for each call
		pass, ok := clients.TryEnter(client, 1)
		if !ok {
			due := clients.For(client).Stats().NextDue
			seconds := max(1, (due+time.Second-1)/time.Second) // rounded up
			w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
			http.Error(w, "too many calls", http.StatusTooManyRequests)
			return
		}
		defer pass.Leave(nil)
		next.ServeHTTP(w, r)
	})
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }

func main() {
	server := httptest.NewServer(limit(http.HandlerFunc(hello)))
	defer server.Close()
	for _, client := range []string{"ann", "ann", "ann", "ann", "ann", "ann", "bob"} {
		req, err := http.NewRequest(http.MethodGet, server.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("Api-Key", client)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		res.Body.Close()
		fmt.Printf("%s: %s, Retry-After: %q\n", client, res.Status, res.Header.Get("Retry-After"))
	}
}
