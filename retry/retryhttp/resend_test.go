package retryhttp_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// entries counts who enters, and notes what it is left with.
type entries struct {
	*gate.Concurrency
	n atomic.Int64

	mu   sync.Mutex
	left []error
}

func (e *entries) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	p, err := e.Concurrency.Enter(ctx, cost)
	if err != nil {
		return p, err
	}
	e.n.Add(1)
	return gate.NewPass(&counting{p, e}, 0, cost), nil
}

type counting struct {
	gate.Pass
	e *entries
}

func (c *counting) Leave(_ uint64, _ int, err error) {
	c.Pass.Leave(err)
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.e.left = append(c.e.left, err)
}

func (c *counting) Settle(_ uint64, _, actual int) { c.Pass.Settle(actual) }

// calls makes a number of calls, one by one.
func calls(t *testing.T, tr *retryhttp.Transport, n int, method, url, body, key string) {
	t.Helper()
	client := &http.Client{Transport: tr, Timeout: 20 * time.Second}
	for range n {
		var r io.Reader
		if body != "" {
			r = strings.NewReader(body)
		}
		req, err := http.NewRequest(method, url, r)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set(key, "1")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if slurp(t, resp); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
	}
}

// What arrives is what has passed the gate, though the server cuts every connection on its
// second use, upon which net/http by itself would send most of these once more.
func TestNothingIsSentUnseen(t *testing.T) {
	for _, c := range []struct{ method, body, key string }{
		{"GET", "", ""}, {"HEAD", "", ""}, {"OPTIONS", "", ""}, {"TRACE", "", ""}, {"PUT", "text", ""}, {"DELETE", "", ""},
		{"GET", "text", ""}, {"POST", "", "Idempotency-Key"}, {"POST", "text", "X-Idempotency-Key"},
	} {
		for _, idle := range []int{1, 3} {
			t.Run(fmt.Sprint(c, idle), func(t *testing.T) {
				var arrived atomic.Int64
				type uses struct{}
				srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if arrived.Add(1); string(body) != c.body || r.ContentLength != int64(len(c.body)) || len(r.TransferEncoding) > 0 {
						t.Errorf("%s came with %d bytes, %v: %q", r.Method, r.ContentLength, r.TransferEncoding, body)
					}
					if r.Header.Get("Warm") != "" {
						time.Sleep(10 * time.Millisecond) // so that several connections are needed
						return
					}
					if r.Context().Value(uses{}).(*atomic.Int64).Add(1) == 2 {
						panic(http.ErrAbortHandler)
					}
				}))
				srv.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
					return context.WithValue(ctx, uses{}, new(atomic.Int64))
				}
				srv.Config.ErrorLog = quiet
				srv.Start()
				defer srv.Close()
				base := &http.Transport{MaxIdleConnsPerHost: idle}
				defer base.CloseIdleConnections()
				g := &entries{Concurrency: gate.NewConcurrency(idle)}
				p := atOnce()
				p.Gate = g
				p.OnRetry = func(e retry.Event) {
					if e.Throttled {
						t.Errorf("told of a throttle: %+v", e)
					}
				}
				tr := &retryhttp.Transport{Base: base, Policy: p}
				// First as many connections as may be kept.
				var wg sync.WaitGroup
				for range idle {
					wg.Go(func() {
						req := request(t, c.method, c.body, true)
						req.URL.Host, req.Host = srv.Listener.Addr().String(), ""
						req.Header.Set("Warm", "1")
						if c.key != "" {
							req.Header.Set(c.key, "1")
						}
						if resp, err := tr.RoundTrip(req); err != nil {
							t.Error(err)
						} else {
							slurp(t, resp)
						}
					})
				}
				wg.Wait()
				calls(t, tr, 12, c.method, srv.URL, c.body, c.key)
				if n := g.n.Load(); n != arrived.Load() || n <= 12+int64(idle) {
					t.Errorf("%d entries, and %d requests arrived", n, arrived.Load())
				}
				for _, err := range g.left {
					var throttled *gate.ThrottledError
					if errors.As(err, &throttled) {
						t.Errorf("the gate was left with %v", err)
					}
				}
				if g.Stats().InUse != 0 {
					t.Errorf("%d in use", g.Stats().InUse)
				}
			})
		}
	}
}

// Without a gate net/http does what it always did.
func TestSentAgainWithoutGate(t *testing.T) {
	var arrived atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Config.ErrorLog = quiet
	srv.Start()
	defer srv.Close()
	f := &books{RoundTripper: &http.Transport{}}
	defer f.CloseIdleConnections()
	calls(t, &retryhttp.Transport{Base: f, Policy: atOnce()}, 2, "GET", srv.URL, "", "")
	if f.attempts.Load() != 2 || arrived.Load() != 3 {
		t.Errorf("%d attempts, %d requests arrived; want 2 and 3", f.attempts.Load(), arrived.Load())
	}
}

// The loss of a connection that was used before does not count as an attempt, unless the
// next is lost, too; and what is told is not called a throttle.
func TestLostWithItsConnection(t *testing.T) {
	var arrived atomic.Int64
	var from, to atomic.Int64 // the requests whose connection is cut
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := arrived.Add(1); from.Load() <= n && n < to.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Config.ErrorLog = quiet
	srv.Start()
	defer srv.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	p := atOnce()
	p.Attempts = 1
	p.Gate = gate.NewConcurrency(1)
	tr := &retryhttp.Transport{Base: base, Policy: p}
	calls(t, tr, 1, "GET", srv.URL, "", "")
	from.Store(2)
	to.Store(3)
	calls(t, tr, 1, "GET", srv.URL, "", "")
	if arrived.Load() != 3 {
		t.Errorf("%d requests arrived, want 3", arrived.Load())
	}
	to.Store(math.MaxInt64)
	_, err := (&http.Client{Transport: tr}).Get(srv.URL)
	var e *retry.Error
	var throttled *gate.ThrottledError
	if arrived.Load() != 5 || !errors.As(err, &e) || e.Attempts != 1 || e.Reason != retry.ErrAttempts || errors.As(err, &throttled) {
		t.Errorf("%d requests arrived, want 5: %v", arrived.Load(), err)
	}

	// The gate may have the last word.
	to.Store(0)
	calls(t, tr, 1, "GET", srv.URL, "", "")
	to.Store(math.MaxInt64)
	g := &last{gate.NewConcurrency(1), 1}
	p.Gate = g
	_, err = (&http.Client{Transport: tr}).Get(srv.URL)
	if !errors.Is(err, gate.ErrGaveUp) || !errors.As(err, &e) || e.Last == nil || errors.As(err, &throttled) {
		t.Errorf("%v", err)
	}
}

// last is a gate that gives up after n entries.
type last struct {
	gate.Gate
	n int
}

func (l *last) Enter(ctx context.Context, cost int) (gate.Pass, error) {
	if l.n--; l.n < 0 {
		return gate.Pass{}, gate.ErrGaveUp
	}
	return l.Gate.Enter(ctx, cost)
}

// A trace of the caller's own goes on.
func TestTraceOfTheCaller(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	var seen []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn:      func(i httptrace.GotConnInfo) { seen = append(seen, fmt.Sprint("got ", i.Reused)) },
		WroteHeaders: func() { seen = append(seen, "wrote") },
	})
	p := atOnce()
	p.Gate = gate.NewConcurrency(1)
	tr := &retryhttp.Transport{Base: base, Policy: p}
	for range 2 {
		req := request(t, "GET", "", true).WithContext(ctx)
		req.URL.Host = srv.Listener.Addr().String()
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		slurp(t, resp)
	}
	if want := []string{"got false", "wrote", "got true", "wrote"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

// What Base asks for by itself, with the request's context, is no repetition of what has
// been answered.
func TestRequestsOfBasesOwn(t *testing.T) {
	inner := &http.Transport{}
	defer inner.CloseIdleConnections()
	ask := func(ctx context.Context, url string) error {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return err
		}
		resp, err := inner.RoundTrip(req)
		if err == nil {
			slurp(t, resp)
		}
		return err
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Challenged") != "" && r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer srv.Close()
	dialing := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if err := ask(ctx, srv.URL+"/where"); err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}
	for name, b := range map[string]http.RoundTripper{
		"token": base(func(req *http.Request) (*http.Response, error) {
			if err := ask(req.Context(), srv.URL+"/token"); err != nil {
				return nil, err
			}
			return inner.RoundTrip(req)
		}),
		"challenge": base(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			req.Header.Set("Challenged", "1")
			resp, err := inner.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			slurp(t, resp)
			req.Header.Set("Authorization", "1")
			return inner.RoundTrip(req)
		}),
		"where to dial": dialing,
	} {
		t.Run(name, func(t *testing.T) {
			g := &entries{Concurrency: gate.NewConcurrency(1)}
			p := atOnce()
			p.Gate = g
			calls(t, &retryhttp.Transport{Base: b, Policy: p}, 3, "GET", srv.URL, "", "")
			if n := g.n.Load(); n != 3 {
				t.Errorf("%d entries, want 3", n)
			}
		})
	}
}

// refuser speaks as much HTTP/2 as is needed to refuse streams: those of which refuse says
// so, as a stream or by ending the connection. The others are answered 200, as soon as their
// head has come.
type refuser struct {
	net.Listener
	url     string
	conns   atomic.Int64
	arrived atomic.Int64
	until   int64 // before that many have arrived none is answered
	refuse  func(n int64) (refuse, goAway bool)
	uploads chan string // how those ended that did not with their head: end or reset
	done    sync.WaitGroup
}

// newRefuser returns a refuser, and a Transport that speaks HTTP/2 with it: over TLS, or in clear
// text.
func newRefuser(t *testing.T, clear bool, refuse func(n int64) (bool, bool)) (*refuser, *http.Transport) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil) // for its certificate
	srv.EnableHTTP2 = true
	srv.StartTLS()
	config, base := srv.TLS.Clone(), srv.Client().Transport.(*http.Transport).Clone()
	srv.Close()
	config.NextProtos = []string{"h2"}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	if clear {
		base = &http.Transport{Protocols: new(http.Protocols)}
		base.Protocols.SetUnencryptedHTTP2(true)
	} else {
		l, url = tls.NewListener(l, config), "https://"+l.Addr().String()
	}
	r := &refuser{Listener: l, url: url, refuse: refuse, uploads: make(chan string, 100)}
	t.Cleanup(r.done.Wait) // after those below
	r.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.conns.Add(1)
			r.done.Go(func() { r.serve(c) })
			t.Cleanup(func() { _ = c.Close() }) // the client may think that it is not idle yet
		}
	})
	t.Cleanup(func() {
		base.CloseIdleConnections()
		_ = l.Close()
	})
	return r, base
}

func (r *refuser) serve(c net.Conn) {
	defer c.Close()
	const data, headers, reset, settings, ping, goAway = 0, 1, 3, 4, 6, 7
	frame := func(kind, flags byte, stream uint32, payload ...byte) {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		head = binary.BigEndian.AppendUint32(append(head, flags), stream)
		_, _ = c.Write(append(head, payload...))
	}
	if _, err := io.CopyN(io.Discard, c, 24); err != nil {
		return
	}
	frame(settings, 0, 0)
	var held []uint32 // streams without an answer
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:])>>8)
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(head[5:])
		switch kind, ack := head[3], head[4]&1 != 0; {
		case kind == data && ack: // there the bit means the end
			r.uploads <- "end"
		case kind == reset:
			r.uploads <- "reset"
		case kind == settings && !ack:
			frame(settings, 1, 0)
		case kind == ping && !ack:
			frame(ping, 1, 0, payload...)
		case kind == headers:
			refuse, away := r.refuse(r.arrived.Add(1))
			switch {
			case refuse && away:
				frame(goAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, stream-2), 0)...)
				// To close with a request unread would reset the connection, and a reset may overtake the frame.
				_, _ = io.Copy(io.Discard, c)
				return
			case refuse:
				frame(reset, 0, stream, 0, 0, 0, 7) // REFUSED_STREAM
			default:
				held = append(held, stream)
			}
			if r.arrived.Load() >= r.until {
				for _, stream := range held {
					frame(headers, 5, stream, 0x88) // the end of both; :status 200
				}
				held = nil
			}
		}
	}
}

// With HTTP/2, net/http by itself sends again what the server has refused as a stream, also
// a POST: it was not processed.
func TestNothingIsSentUnseenHTTP2(t *testing.T) {
	for name, refuse := range map[string]func(int64) (bool, bool){
		"refused":       func(n int64) (bool, bool) { return n%3 == 2, false },
		"refused twice": func(n int64) (bool, bool) { return n%4 >= 2, false },
		"going away":    func(n int64) (bool, bool) { return n%3 == 2, true },
	} {
		for _, c := range []struct {
			method, body string
			clear        bool
		}{{"GET", "", false}, {"POST", "text", false}, {"PUT", "text", false}, {"GET", "", true}, {"POST", "text", true}} {
			t.Run(fmt.Sprint(name, c), func(t *testing.T) {
				r, base := newRefuser(t, c.clear, refuse)
				g := &entries{Concurrency: gate.NewConcurrency(1)}
				p := atOnce()
				p.Gate = g
				tr := &retryhttp.Transport{Base: base, Policy: p}
				calls(t, tr, 6, c.method, r.url, c.body, "")
				if n := g.n.Load(); n != r.arrived.Load() || n <= 6 {
					t.Errorf("%d entries, and %d requests arrived", n, r.arrived.Load())
				}
			})
		}
	}
}

// Somebody who always refuses is not asked without end.
func TestRefusedForEver(t *testing.T) {
	r, base := newRefuser(t, false, func(int64) (bool, bool) { return true, false })
	p := atOnce()
	p.Gate = gate.NewConcurrency(1)
	_, err := (&http.Client{Transport: &retryhttp.Transport{Base: base, Policy: p}}).Post(r.url, "text/plain", strings.NewReader("text"))
	if !errors.Is(err, retry.ErrAttempts) || r.arrived.Load() != 8 {
		t.Errorf("%d requests arrived, want 8, each second of them an attempt that counts: %v", r.arrived.Load(), err)
	}
}
