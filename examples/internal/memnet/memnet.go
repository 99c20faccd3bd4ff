// Package memnet is a network in memory for tests in a testing/synctest bubble. Real HTTP clients
// and servers speak over it, and no time passes but theirs.
package memnet

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// URL is where the server of a [Network] is.
const URL = "http://api.test"

// jitter is how long a request is on its way at most. It is many intervals of a rate of 100 a
// second, so that calls which leave evenly arrive in bunches.
const jitter = 30 * time.Millisecond

// A Network has one server, which can be stopped and started again. While it is stopped,
// connections are refused.
type Network struct {
	handler http.Handler

	mu       sync.Mutex // guards what is below; no goroutine waits under it
	server   *http.Server
	listener *listener
}

// Serve starts a server for h that http.DefaultTransport, and so every client without a transport of
// its own, calls under [URL] until the test ends. Tests that use it must not be parallel.
//
// Requests take up to 30 ms to arrive, each its own time. A client that counts departures alone goes
// over a limit that counts arrivals.
func Serve(t testing.TB, h http.Handler) *Network { return ServeWithin(t, h, jitter) }

// ServeWithin is Serve for a network on which requests take up to jitter to arrive.
func ServeWithin(t testing.TB, h http.Handler, jitter time.Duration) *Network {
	n := &Network{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		underWay := time.NewTimer(rand.N(jitter))
		defer underWay.Stop()
		select {
		case <-underWay.C:
			h.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})}
	n.Start()
	before := http.DefaultTransport
	transport := &http.Transport{DialContext: n.dial, MaxIdleConnsPerHost: 100}
	http.DefaultTransport = transport
	t.Cleanup(func() {
		http.DefaultTransport = before
		transport.CloseIdleConnections()
		n.Stop()
		time.Sleep(jitter) // until no request is on its way: one with a body does not notice the end
	})
	return n
}

// Start starts the server. It must be stopped.
func (n *Network) Start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	n.server = &http.Server{Handler: n.handler}
	go n.server.Serve(n.listener) // ends with Stop
}

// Stop cuts all connections and refuses new ones.
func (n *Network) Stop() {
	n.mu.Lock()
	server := n.server
	n.mu.Unlock()
	_ = server.Close() // of a listener that has no error
}

func (n *Network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listener
	n.mu.Unlock()
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// listener hands dialed connections to a server.
type listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "api.test" }
