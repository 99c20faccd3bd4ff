package clients

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// hint is the Retry-After of every throttle. In a bubble, waiting for it takes no time.
const hint = 7 * time.Second

// answer is what the far side has to say to a request. With the status 0 it resets the
// connection.
type answer struct {
	status int
	fields map[string]string
	body   string
}

// far is the server of an API. It is strict: it counts what arrives before the hint that it
// gave last is over. Its connections are pipes, so that it works in a bubble, where a client's
// delays are exact and free; they lead to it whatever the URL says, https as well.
type far struct {
	answers []answer // in turn, the last one again and again

	began  time.Time
	conns  chan net.Conn // from dial to Accept; never closed
	closed chan struct{} // closed by Close

	mu      sync.Mutex
	arrived []time.Duration // since it began
	early   int             // of them, before the hint was over
	until   time.Time       // when it is over
}

// listen starts a server in the test's bubble, and returns it with a transport that leads to it.
// The end of the test, which must come before that of the bubble, ends both.
func listen(t *testing.T, answers ...answer) (*far, *http.Transport) {
	f := &far{answers: answers, began: time.Now(), conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(f) }()
	tr := &http.Transport{DialContext: f.dial, DialTLSContext: f.dial}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		if err := errors.Join(srv.Close(), <-done); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		synctest.Wait()
	})
	return f, tr
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a client that gives up closes its end
	f.mu.Lock()
	now := time.Now()
	a := f.answers[min(len(f.arrived), len(f.answers)-1)]
	f.arrived = append(f.arrived, now.Sub(f.began))
	if now.Before(f.until) {
		f.early++
	}
	if a.fields["Retry-After"] != "" {
		f.until = now.Add(hint)
	}
	f.mu.Unlock()
	if a.status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	for k, v := range a.fields {
		w.Header().Set(k, v)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func (f *far) requests() count {
	f.mu.Lock()
	defer f.mu.Unlock()
	return count{len(f.arrived), f.early}
}

// left returns what is left of the hint that was given last.
func (f *far) left() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(time.Until(f.until), 0)
}

// far is the net.Listener of its own server.
var _ net.Listener = (*far)(nil)

func (f *far) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

func (f *far) Close() error {
	close(f.closed)
	return nil
}

func (f *far) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (f *far) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, other := net.Pipe()
	select {
	case f.conns <- other:
		return conn{near}, nil
	case <-f.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// conn is the client's end. What is the end of a pipe is a reset of a connection.
type conn struct{ net.Conn }

func (c conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		err = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	return n, err
}
