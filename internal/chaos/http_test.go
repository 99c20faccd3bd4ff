package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
	"pgregory.net/rapid"
)

func TestHTTP(t *testing.T) {
	repeated(t, 5, func(rt *rapid.T) {
		plan := drawHTTP(rt)
		inBubble(t, rt, plan.run)
	})
}

var errBroken = errors.New("the body cannot be made again")

// request makes the request number id, whose bodies are counted in open.
func (r requestPlan) request(ctx context.Context, id int, open *atomic.Int64) *http.Request {
	body := func() io.ReadCloser {
		open.Add(1)
		return &countedBody{ReadCloser: io.NopCloser(strings.NewReader(payload)), open: open}
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, "http://server/", nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Id", strconv.Itoa(id))
	if r.Key {
		req.Header.Set("Idempotency-Key", "")
	}
	if r.Body == "none" {
		return req
	}
	req.Body, req.ContentLength = body(), int64(len(payload))
	switch r.Body {
	case "replayable":
		req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
	case "broken":
		req.GetBody = func() (io.ReadCloser, error) { return nil, errBroken }
	}
	return req
}

// answer is what the caller of one request got.
type answer struct {
	id     int
	status int
	err    error
	ended  time.Duration // when it had the response or the error
}

// call sends one request and reads its response as the plan says.
func (p httpPlan) call(c *complaints, rt http.RoundTripper, id int, bodies *atomic.Int64) answer {
	r, began := p.Requests[id], time.Now()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if r.Cancel > 0 {
		defer time.AfterFunc(r.Cancel, func() { cancel(errCancel) }).Stop()
	}
	resp, err := rt.RoundTrip(r.request(ctx, id, bodies))
	a := answer{id: id, err: err, ended: time.Since(began)}
	if err != nil {
		if resp != nil {
			c.add("a response with an error")
		}
		return a
	}
	a.status = resp.StatusCode
	time.Sleep(r.Pause)
	var got []byte
	switch r.Reads {
	case "all":
		got, err = io.ReadAll(resp.Body)
		f := p.forecast(r)
		want, sure := f.last, r.Cancel == 0 && !f.unsure && !p.unsure(r) && (!f.kept || f.last.Body <= 64<<10) &&
			(p.Timeout == 0 || f.last.Takes+r.Pause < p.Timeout)
		if r.Method == "HEAD" {
			want.Body, want.Cut = 0, false
		}
		if sure && (want.Cut != (err != nil) || !want.Cut && len(got) != want.Body || want.Cut && len(got) > want.Body/2) {
			c.add("request %d: %d bytes of %d, %v", id, len(got), want.Body, err)
		}
	case "half":
		got = make([]byte, resp.ContentLength/2+1)
		resp.Body.Read(got)
	}
	resp.Body.Close()
	return a
}

// resends reports that net/http may send something again by itself: on a connection that was used before.
func (p httpPlan) resends() bool {
	for _, r := range p.Requests {
		for _, a := range r.Script {
			if a.Drop && p.KeepAlive && !p.H2 && (p.Gate == "none" || len(p.Requests) > 1) {
				return true
			}
		}
	}
	return false
}

// unsure reports that other requests, or the network, may do what the forecast does not know.
func (p httpPlan) unsure(r requestPlan) bool {
	return p.resends() || p.Elapsed > 0 && len(p.Requests) > 1 && p.Gate != "none" ||
		r.Cancel > 0 && (len(p.Requests) > 1 || p.forecast(r).ended >= r.Cancel)
}

// run sends all requests of the plan at once.
func (p httpPlan) run() error {
	var c complaints
	var bodies atomic.Int64
	network := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &server{complaints: &c, httpPlan: p, arrivals: make([]int, len(p.Requests))}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!p.H2)
	protocols.SetUnencryptedHTTP2(p.H2)
	srv := &http.Server{Handler: s, Protocols: protocols}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(network) }()
	client := &http.Transport{DialContext: network.dial, Protocols: protocols, DisableKeepAlives: !p.KeepAlive}
	if p.Warm {
		req, _ := http.NewRequest("GET", "http://server/", nil)
		resp, err := client.RoundTrip(req)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, resp.Body)
		synctest.Wait()
	}
	base := &counted{RoundTripper: client}
	var g gate.Gate
	switch p.Gate {
	case "slots":
		g = gate.NewConcurrency(p.Slots)
	case "composite":
		g = gate.All(gate.NewConcurrency(p.Slots), gate.NewWindow(1000, 1, nil))
	}
	tr := &retryhttp.Transport{Base: base, NoRetry: p.NoRetry, Policy: &retry.Policy{Attempts: p.Attempts, Throttles: p.Throttles,
		Backoff: retry.Constant(p.Delay), MaxRetryAfter: p.MaxHint, Elapsed: p.Elapsed,
		AttemptTimeout: p.Timeout, Gate: g}}
	answers := make(chan answer, len(p.Requests))
	for id := range p.Requests {
		go func() { answers <- p.call(&c, tr, id, &bodies) }()
	}
	all := make([]answer, len(p.Requests))
	for range all {
		a := <-answers
		all[a.id] = a
	}
	synctest.Wait()
	if base.open.Load() != 0 || bodies.Load() != 0 {
		c.add("%d bodies of responses and %d of requests are open", base.open.Load(), bodies.Load())
	}
	tr.CloseIdleConnections()
	time.Sleep(24 * time.Hour) // what the server does for requests that were cancelled
	synctest.Wait()
	if n := network.open.Load(); n != 0 {
		c.add("%d connections are open", n)
	}
	srv.Close()
	<-served
	arrivals, exact := 0, true
	for id, r := range p.Requests {
		arrivals += s.arrivals[id]
		unsure := p.unsure(r)
		exact = exact && !unsure && r.Cancel == 0 && r.Body != "broken"
		f := p.forecast(r)
		if r.Cancel > 0 && len(p.Requests) == 1 && r.Cancel < f.ended && !f.unsure && !p.resends() &&
			(all[id].status != 0 || all[id].ended != r.Cancel || !errors.Is(all[id].err, errCancel)) {
			c.add("cancelled at %v: %+v %v", r.Cancel, all[id], all[id].err)
		}
		if !unsure && !f.unsure {
			if err := p.compare(all[id], s.arrivals[id], f, r); err != nil {
				c.add("request %d %+v: %v; got %+v (%v), %d arrivals; want %+v", id, r, err, all[id], all[id].err, s.arrivals[id], f)
			}
		}
	}
	if g != nil {
		stats, _ := gate.StatsOf(g)
		if n := int(stats.Granted); n < arrivals || exact && n != arrivals {
			c.add("%d arrivals, and the gate let in %d", arrivals, n)
		}
		if stats.InUse != 0 || stats.Waiting != 0 {
			c.add("gate at the end: %+v", stats)
		}
		if exact && s.peak > p.Slots && p.Timeout == 0 {
			c.add("%d at once, %d slots", s.peak, p.Slots)
		}
	}
	if err := c.err(); err != nil {
		return fmt.Errorf("%w\n%+v", err, p)
	}
	return nil
}

// compare says in what a call was not as it was forecast.
func (p httpPlan) compare(got answer, arrivals int, want httpForecast, r requestPlan) error {
	var e *retry.Error
	var status *retryhttp.StatusError
	switch {
	case arrivals != want.arrivals:
		return errors.New("arrivals")
	case got.status != want.status:
		return errors.New("status")
	case len(p.Requests) == 1 && got.ended != want.ended:
		return errors.New("instant")
	case got.err == nil:
		return nil
	case errors.As(got.err, &e) == want.base:
		return fmt.Errorf("the error is a %T", got.err)
	case want.base && !want.late:
		return nil
	case !want.noBody && !want.base && !slices.ContainsFunc(want.reasons, func(r error) bool { return errors.Is(e.Reason, r) }):
		return fmt.Errorf("reason %v", e.Reason)
	case want.noBody && !errors.Is(got.err, errBroken):
		return fmt.Errorf("not the error of GetBody: %v", got.err)
	case want.late && !want.noBody && !errors.Is(got.err, context.DeadlineExceeded):
		return fmt.Errorf("not a timeout: %v", got.err)
	case !want.noBody && !want.late && !want.last.Drop && (!errors.As(got.err, &status) || status.StatusCode != want.last.Status):
		return fmt.Errorf("not a StatusError: %v", got.err)
	}
	return nil
}
