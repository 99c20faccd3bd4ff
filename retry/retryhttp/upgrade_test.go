package retryhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// A gated connection that has switched protocols can be half-closed: behind a ReverseProxy the
// server learns that the client has no more to say, and answers then.
func TestHalfCloseThroughReverseProxy(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // it would wait for ever
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		heard, err := io.ReadAll(buf)
		if err != nil {
			t.Errorf("the server heard %q, and no end: %v", heard, err)
		}
		fmt.Fprintf(conn, "heard %s", heard)
	}))
	defer far.Close()
	target, err := url.Parse(far.URL)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	g := gate.NewConcurrency(1)
	p := atOnce()
	p.Gate = g
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &retryhttp.Transport{Base: base, Policy: p}
	front := httptest.NewServer(proxy)
	defer front.Close()

	conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: far.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	_, _ = io.WriteString(conn, "hello")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "heard hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	// The proxy closes its connection in a goroutine of its own, and with it the gate is left.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := g.Enter(ctx, 1); err != nil {
		t.Error(err)
	}
}

// A body that can be closed only as a whole does not claim more.
func TestNoHalfClose(t *testing.T) {
	p := atOnce()
	p.Gate = gate.NewConcurrency(1)
	tr := &retryhttp.Transport{Policy: p, Base: base(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 101, Body: &pipe{Reader: strings.NewReader("theirs")}, Request: req}, nil
	})}
	resp, err := tr.RoundTrip(request(t, "GET", "", true))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, ok := resp.Body.(interface{ CloseWrite() error }); ok {
		t.Errorf("%T has a CloseWrite", resp.Body)
	}
	if _, ok := resp.Body.(io.ReadWriteCloser); !ok {
		t.Errorf("%T can't be written to", resp.Body)
	}
}

// Wrong use panics with the package, the function and the rule.
func TestMisuse(t *testing.T) {
	for want, f := range map[string]func(){
		"retryhttp: Transport.RoundTrip: req must not be nil, got nil":                      func() { _, _ = new(retryhttp.Transport).RoundTrip(nil) },
		"retryhttp: Transport.RoundTrip: the Transport must not be nil, got nil":            func() { _, _ = (*retryhttp.Transport)(nil).RoundTrip(request(t, "GET", "", true)) },
		"retryhttp: Transport.CloseIdleConnections: the Transport must not be nil, got nil": func() { (*retryhttp.Transport)(nil).CloseIdleConnections() },
	} {
		func() {
			defer func() {
				if got := recover(); fmt.Sprint(got) != want {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
}
