package chaos_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// payload is what requests with a body send.
var payload = strings.Repeat("payload ", 700)

// pipes is a network without a delay: each dial makes a net.Pipe, whose other end Accept gives.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	open   atomic.Int64 // ends of the server that are not closed
}

type serverConn struct {
	net.Conn
	once sync.Once
	of   *pipes
}

func (c *serverConn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- &serverConn{Conn: server, of: p}:
		return client, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		p.open.Add(1)
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// server answers by the scripts of the requests, and counts.
type server struct {
	*complaints
	httpPlan
	mu       sync.Mutex
	arrivals []int // by request
	inFlight int
	peak     int
}

func (s *server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id, err := strconv.Atoi(req.Header.Get("X-Id"))
	if err != nil {
		return // it only warms the connection
	}
	s.mu.Lock()
	r := s.Requests[id]
	n := s.arrivals[id]
	s.arrivals[id]++
	s.inFlight++
	s.peak = max(s.peak, s.inFlight)
	s.mu.Unlock()
	a := reply{Status: 200}
	if n < len(r.Script) {
		a = r.Script[n]
	}
	body, err := io.ReadAll(req.Body)
	if want := r.Body != "none"; r.Cancel == 0 && (err != nil || want != (string(body) == payload)) {
		s.add("arrival %d of request %d has a body of %d bytes, %v", n, id, len(body), err)
	}
	time.Sleep(a.Takes)
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
	if a.Drop {
		panic(http.ErrAbortHandler)
	}
	if a.Early {
		w.WriteHeader(http.StatusEarlyHints)
	}
	a.header(w.Header())
	if a.Body > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(a.Body))
	}
	w.WriteHeader(a.Status)
	if req.Method == "HEAD" {
		return
	}
	if a.Cut {
		io.WriteString(w, strings.Repeat("x", a.Body/2))
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, strings.Repeat("x", a.Body))
}

// counted is a Base that counts its calls and the bodies that are still open.
type counted struct {
	http.RoundTripper
	calls, open atomic.Int64
}

func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	resp, err := c.RoundTripper.RoundTrip(req)
	if err == nil {
		c.open.Add(1)
		resp.Body = &countedBody{ReadCloser: resp.Body, open: &c.open}
	}
	return resp, err
}

// countedBody counts down when it is closed for the first time.
type countedBody struct {
	io.ReadCloser
	open *atomic.Int64
	once sync.Once
}

func (b *countedBody) Close() error {
	b.once.Do(func() { b.open.Add(-1) })
	return b.ReadCloser.Close()
}

func (c *counted) CloseIdleConnections() { c.RoundTripper.(*http.Transport).CloseIdleConnections() }
