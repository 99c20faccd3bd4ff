package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// ownHost is where the URLs of the program's own list lead. There is no such host: the API
// listens on another port in every run. The list must be the same in all of them, or what one run has
// fetched would not be known to the next.
const ownHost = "http://api.test"

func ownList(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		urls[i] = fmt.Sprintf("%s/items/%d", ownHost, i+1)
	}
	return urls
}

// startAPI starts the program's own API, which demands what the flags promise. It bans callers that call
// on for longer than two seconds after a 429, by when whatever was under way has arrived.
func startAPI(o *options) (*strictapi.Server, error) {
	options := &strictapi.Options{
		Limit:       strictapi.SlidingWindow(o.limit.Count(), o.limit.Span()),
		Concurrency: o.inFlight,
		Latency:     strictapi.LogNormal(70*time.Millisecond, 0.35, 700*time.Millisecond, 1),
		Ban:         &strictapi.Ban{Grace: 2 * time.Second},
	}
	if !o.calm {
		options.Moods = []strictapi.Mood{
			strictapi.Share(0.05, strictapi.Fault{Status: http.StatusServiceUnavailable}, 1),
			strictapi.Share(0.01, strictapi.Fault{Drop: strictapi.BeforeHeader}, 2),
			strictapi.Share(0.01, strictapi.Fault{Drop: strictapi.InBody}, 3),
		}
	}
	return strictapi.Start(options)
}

// dialAPI makes all connections lead to the API, whatever the host.
func dialAPI(t *http.Transport, api *strictapi.Server) {
	address := strings.TrimPrefix(api.URL(), "http://")
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}
