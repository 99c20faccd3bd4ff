package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// quiet is for servers whose clients misbehave on purpose, or that do so themselves.
var quiet = log.New(io.Discard, "", 0)

// books counts what is open: connections at the server, and bodies of responses at Base.
type books struct {
	http.RoundTripper
	dials, conns, bodies, attempts atomic.Int64
}

func (c *books) RoundTrip(req *http.Request) (*http.Response, error) {
	c.attempts.Add(1)
	resp, err := c.RoundTripper.RoundTrip(req)
	if err == nil {
		c.bodies.Add(1)
		resp.Body = &booked{ReadCloser: resp.Body, bodies: &c.bodies}
	}
	return resp, err
}

func (c *books) CloseIdleConnections() { c.RoundTripper.(*http.Transport).CloseIdleConnections() }

type booked struct {
	io.ReadCloser
	bodies *atomic.Int64
	once   sync.Once
}

func (b *booked) Close() error {
	b.once.Do(func() { b.bodies.Add(-1) })
	return b.ReadCloser.Close()
}

// serve starts a server, and returns its books and a Transport whose Base keeps them. When
// the test is over, nothing may be open any more.
func serve(t *testing.T, h2 bool, h http.HandlerFunc) (string, *books, *retryhttp.Transport) {
	t.Helper()
	c := &books{}
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = h2
	srv.Config.ErrorLog = quiet
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			c.dials.Add(1)
			c.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			c.conns.Add(-1)
		}
	}
	base := &http.Transport{}
	if h2 {
		srv.StartTLS()
		base = srv.Client().Transport.(*http.Transport)
	} else {
		srv.Start()
	}
	c.RoundTripper = base
	tr := &retryhttp.Transport{Base: c, Policy: atOnce()}
	t.Cleanup(func() {
		if n := c.bodies.Load(); n != 0 {
			t.Errorf("%d bodies are open", n)
		}
		for begun := time.Now(); c.conns.Load() != 0; runtime.Gosched() {
			// Again and again: a stream of HTTP/2 is over a little later than its response.
			(&http.Client{Transport: tr}).CloseIdleConnections()
			if time.Since(begun) > 5*time.Second {
				t.Errorf("%d connections are open", c.conns.Load())
				break
			}
		}
		srv.Close()
	})
	return srv.URL, c, tr
}

func protocols(t *testing.T, f func(t *testing.T, h2 bool)) {
	for _, h2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP1", true: "HTTP2"}[h2], func(t *testing.T) { f(t, h2) })
	}
}

// With one connection, a response that is still open would keep the next attempt waiting for
// ever; and there is no second one, because the first is used again.
func TestOneConnection(t *testing.T) {
	protocols(t, func(t *testing.T, h2 bool) {
		var n atomic.Int64
		url, c, tr := serve(t, h2, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if i := n.Add(1) % 4; i != 0 {
				w.WriteHeader([]int{0, 503, 429, 500}[i])
				_, _ = w.Write(bytes.Repeat([]byte("x"), []int{0, 10, 60000, 3000}[i]))
				return
			}
			fmt.Fprintf(w, "%s %s", r.Method, body)
		})
		c.RoundTripper.(*http.Transport).MaxConnsPerHost = 1
		tr.Policy.AttemptTimeout = 20 * time.Second
		tr.Policy.Gate = gate.NewConcurrency(1)
		client := &http.Client{Transport: tr, Timeout: 20 * time.Second}
		for i := range 20 {
			text := fmt.Sprint("text ", i)
			req, err := http.NewRequest("PUT", url, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := slurp(t, resp); got != "PUT "+text {
				t.Errorf("got %q", got)
			}
		}
		if c.dials.Load() != 1 || c.attempts.Load() != 80 {
			t.Errorf("%d connections, %d attempts", c.dials.Load(), c.attempts.Load())
		}
	})
}

// Each hop of a redirect is a call, with all its attempts, and with the body if it is to be
// sent there.
func TestRedirects(t *testing.T) {
	protocols(t, func(t *testing.T, h2 bool) {
		var mu sync.Mutex
		var log []string
		url, _, tr := serve(t, h2, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			log = append(log, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
			first := len(log)%2 == 1
			mu.Unlock()
			switch {
			case first:
				w.WriteHeader(http.StatusTooManyRequests)
			case r.URL.Path == "/a":
				http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
			case r.URL.Path == "/b":
				http.Redirect(w, r, "/c", http.StatusSeeOther)
			}
		})
		resp, err := (&http.Client{Transport: tr}).Post(url+"/a", "text/plain", strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		slurp(t, resp)
		want := "POST /a text,POST /a text,POST /b text,POST /b text,GET /c ,GET /c "
		if got := strings.Join(log, ","); got != want || resp.Request.URL.Path != "/c" || resp.StatusCode != 200 {
			t.Errorf("%s: %s", resp.Status, got)
		}
	})
}

// A body that streams arrives as it is sent, and holds its slot to the end; one that is
// uploaded as a stream is sent once.
func TestStreams(t *testing.T) {
	protocols(t, func(t *testing.T, h2 bool) {
		next := make(chan struct{})
		url, c, tr := serve(t, h2, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "PUT" {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			for i := range 3 {
				fmt.Fprintf(w, "part %d", i)
				w.(http.Flusher).Flush()
				<-next
			}
		})
		g := gate.NewConcurrency(1)
		tr.Policy.Gate = g
		client := &http.Client{Transport: tr}
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			p := make([]byte, 6)
			if _, err := io.ReadFull(resp.Body, p); err != nil || string(p) != fmt.Sprint("part ", i) {
				t.Errorf("%q, %v", p, err)
			}
			if g.Stats().InUse != 1 {
				t.Error("the stream holds no slot")
			}
			next <- struct{}{}
		}
		slurp(t, resp)
		if g.Stats().InUse != 0 {
			t.Error("the slot is not given back")
		}

		r, w := io.Pipe()
		go func() {
			for range 100 {
				_, _ = w.Write(make([]byte, 1000))
			}
			w.Close()
		}()
		before := c.attempts.Load()
		req, err := http.NewRequest("PUT", url, r)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err = client.Do(req); err != nil || resp.StatusCode != 503 || c.attempts.Load() != before+1 {
			t.Fatal(resp, err)
		}
		slurp(t, resp)
	})
}

// A server of HTTP/2 may answer before it has read the request (RFC 9113, section 8.1). If it
// has no more to say than that all is well, the upload goes on.
func TestUploadOutlastsResponse(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"gate": {Gate: gate.NewConcurrency(1)}, "timeout": {AttemptTimeout: time.Hour},
	} {
		for _, read := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", read ", read), func(t *testing.T) {
				srv, base := newRefuser(t, false, func(int64) (bool, bool) { return false, false })
				p.Clock = clock.NewMock() // which stands still: on a busy machine an upload takes long
				r, w := io.Pipe()
				req, err := http.NewRequest("PUT", "https://"+srv.Addr().String(), r)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := (&http.Client{Transport: &retryhttp.Transport{Base: base, Policy: &p}}).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if read {
					slurp(t, resp)
				} else {
					_ = resp.Body.Close()
				}
				if p.Gate != nil && p.Gate.(*gate.Concurrency).Stats().InUse != 0 {
					t.Error("the slot is not given back")
				}
				go func() {
					for range 10 {
						_, _ = w.Write(make([]byte, 1000))
					}
					w.Close()
				}()
				if how := <-srv.uploads; how != "end" {
					t.Errorf("the upload ended with a %s", how)
				}
			})
		}
	}
}

// The client's own timeout is told as one, wherever it strikes.
func TestClientTimeout(t *testing.T) {
	protocols(t, func(t *testing.T, h2 bool) {
		url, _, tr := serve(t, h2, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/busy" {
				w.WriteHeader(503)
				return
			}
			if r.URL.Path == "/body" {
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		})
		g := gate.NewConcurrency(2)
		for _, at := range []string{"/headers", "/body", "/gate", "/busy"} {
			p := atOnce()
			if tr.Policy = p; at == "/gate" {
				p.Gate = g
				if _, ok := g.TryEnter(2); !ok {
					t.Fatal("the gate is in use")
				}
			}
			if at == "/busy" {
				p.Backoff = retry.Constant(time.Millisecond)
				p.Attempts = -1
			}
			resp, err := (&http.Client{Transport: tr, Timeout: 25 * time.Millisecond}).Get(url + at)
			if err == nil && at == "/busy" { // no time for another delay
				slurp(t, resp)
				continue
			}
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			var late net.Error
			if !errors.As(err, &late) || !late.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", at, err)
			}
		}
	})
}

// The contexts of calls end at random instants, and nothing stays behind.
func TestCancelledAtRandom(t *testing.T) {
	protocols(t, func(t *testing.T, h2 bool) {
		url, _, tr := serve(t, h2, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if rand.IntN(2) == 0 {
				w.WriteHeader(503)
			}
			for range 4 {
				_, _ = w.Write(make([]byte, 2000))
				w.(http.Flusher).Flush()
				for range rand.IntN(100) {
					runtime.Gosched()
				}
			}
		})
		g := gate.NewConcurrency(5)
		tr.Policy.Gate, tr.Policy.AttemptTimeout, tr.Policy.Attempts = g, time.Minute, -1
		tr.Policy.Backoff = retry.Constant(100 * time.Microsecond)
		client := &http.Client{Transport: tr}
		var wg sync.WaitGroup
		var done, cancelled atomic.Int64
		for range 10 {
			wg.Go(func() {
				for range 30 {
					ctx, cancel := context.WithCancel(context.Background())
					timer := time.AfterFunc(rand.N(6*time.Millisecond), cancel)
					req, err := http.NewRequestWithContext(ctx, "PUT", url, bytes.NewReader(make([]byte, 5000)))
					if err != nil {
						t.Error(err)
					}
					resp, err := client.Do(req)
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
					switch {
					case err == nil:
						done.Add(1)
					case errors.Is(err, context.Canceled):
						cancelled.Add(1)
					default:
						t.Error(err)
					}
					timer.Stop()
					cancel()
				}
			})
		}
		wg.Wait()
		if g.Stats().InUse != 0 || cancelled.Load() == 0 {
			t.Errorf("%d in use; %d done, %d cancelled", g.Stats().InUse, done.Load(), cancelled.Load())
		}
	})
}

// raceDetector is set where each call costs four times as much.
var raceDetector bool

// Ten thousand calls, with everything going wrong that can.
func TestNothingLeaks(t *testing.T) {
	calls := int64(10000)
	if testing.Short() || raceDetector {
		calls = 1500
	}
	reset := func(w http.ResponseWriter, r *http.Request, text string) {
		if r.Method == "HEAD" {
			text = "" // net/http logs what comes unasked
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	var n atomic.Int64
	url, c, tr := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		i := n.Add(1)
		if i%700 == 0 && r.Method != "HEAD" {
			_, _ = io.Copy(io.Discard, r.Body) // or else the server does not see the client go
			w.WriteHeader([]int{200, 503}[i/700%2])
			_, _ = io.WriteString(w, "a slow body")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		switch i % 41 {
		case 1, 2:
			w.WriteHeader(500)
			_, _ = w.Write(make([]byte, 3000))
		case 3:
			http.Error(w, "too many", http.StatusTooManyRequests)
		case 4:
			w.WriteHeader(503)
			_, _ = w.Write(make([]byte, 100<<10)) // more than is drained
		case 5:
			reset(w, r, "")
		case 6:
			reset(w, r, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		case 7:
			reset(w, r, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nhalf")
		case 8:
			reset(w, r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n9\r\nhalf")
		case 9:
			reset(w, r, "HTTP/1.1 what?\r\n\r\n")
		case 10:
			w.Header().Set("Content-Length", "100")
			w.WriteHeader([]int{200, 502}[i/41%2])
			_, _ = io.WriteString(w, "truncated")
		case 11:
			w.Header().Set("Content-Length", "4")
			_, _ = io.WriteString(w, "more than that")
		case 12:
			panic(http.ErrAbortHandler)
		case 13:
			w.Header().Set("Connection", "close")
			w.WriteHeader(504)
		default:
			_, _ = io.WriteString(w, "good")
		}
	})
	base := c.RoundTripper.(*http.Transport)
	base.MaxIdleConnsPerHost = 16
	var dials atomic.Int64
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1)%5 == 0 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	g := gate.All(gate.NewConcurrency(12), gate.NewRate(pace.PerSecond(1_000_000), &gate.RateOptions{Burst: 1000}))
	tr.Policy = &retry.Policy{Backoff: retry.Constant(0), Gate: g, AttemptTimeout: 250 * time.Millisecond}
	client := &http.Client{Transport: tr}
	var begun, good, bad, failed atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				i := begun.Add(1)
				if i > calls {
					return
				}
				method := []string{"GET", "PUT", "POST", "HEAD"}[i%4]
				var body io.Reader
				if method == "PUT" || method == "POST" {
					body = strings.NewReader("text")
				}
				req, err := http.NewRequest(method, url, body)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					failed.Add(1)
					continue
				}
				if i%10 != 0 { // some users don't read
					_, err = io.Copy(io.Discard, resp.Body)
				}
				_ = resp.Body.Close()
				if err == nil && resp.StatusCode == 200 {
					good.Add(1)
				} else {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls in %d attempts over %d connections: %d good, %d broke off or bad, %d failed",
		calls, c.attempts.Load(), c.dials.Load(), good.Load(), bad.Load(), failed.Load())
	if good.Load() < calls*6/10 || bad.Load() == 0 || failed.Load() == 0 || c.attempts.Load() < calls*6/5 {
		t.Error("the faults are not those that are meant")
	}
	if p, ok := g.TryEnter(12); !ok {
		t.Error("the gate was not left by all")
	} else {
		p.Leave(nil)
	}
}
