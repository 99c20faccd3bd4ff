package retryhttp_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// together makes n calls at once, each of which must be answered 200 by its only attempt.
func together(t *testing.T, tr *retryhttp.Transport, n int, method, url string) {
	t.Helper()
	client := &http.Client{Transport: tr, Timeout: 20 * time.Second}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			req, err := http.NewRequest(method, url, strings.NewReader("text"))
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if slurp(t, resp); resp.StatusCode != 200 {
				t.Error(resp.Status)
			}
		})
	}
	wg.Wait()
}

// A refused stream queues at the gate again, and the other streams of its connection go on.
func TestRefusedStreamAmongOthers(t *testing.T) {
	const streams = 50
	for _, clear := range []bool{true, false} {
		for range 10 { // net/http chooses at random
			r, base := newRefuser(t, clear, func(n int64) (bool, bool) { return n == streams/2, false })
			g := &entries{Concurrency: gate.NewConcurrency(2 * streams)}
			p := atOnce()
			p.Gate, p.Attempts = g, 1
			tr := &retryhttp.Transport{Base: base, Policy: p}
			base.MaxConnsPerHost = 1
			r.until = streams + 1 // so that nothing is answered before the refused one has come again
			together(t, tr, streams, "POST", r.url)
			if n := g.n.Load(); n != streams+1 || r.arrived.Load() != n || r.conns.Load() != 1 {
				t.Errorf("clear %v: %d entries, %d requests arrived on %d connections; want %d on one", clear, n, r.arrived.Load(), r.conns.Load(), streams+1)
			}
		}
	}
}

// The same with net/http's own server, which refuses what is above its limit until the client
// knows that.
func TestClearTextServer(t *testing.T) {
	const streams = 60
	var handled, conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handled.Add(1); r.ProtoMajor != 2 || r.TLS != nil {
			t.Errorf("came as %s, %v", r.Proto, r.TLS)
		}
		time.Sleep(5 * time.Millisecond) // the others arrive meanwhile
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 30}
	srv.Listener = &accepts{srv.Listener, &conns}
	srv.Start()
	defer srv.Close()
	base := &http.Transport{Protocols: srv.Config.Protocols, MaxConnsPerHost: 1}
	defer base.CloseIdleConnections()
	g := &entries{Concurrency: gate.NewConcurrency(2 * streams)}
	p := atOnce()
	p.Gate = g
	together(t, &retryhttp.Transport{Base: base, Policy: p}, streams, "POST", srv.URL)
	if handled.Load() != streams || g.n.Load() < streams {
		t.Errorf("%d handled, %d entries, %d connections", handled.Load(), g.n.Load(), conns.Load())
	}
}

// accepts counts the connections of a listener.
type accepts struct {
	net.Listener
	n *atomic.Int64
}

func (l *accepts) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}
