package gates_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// screen is the response writer of a viewer in a bubble.
type screen struct {
	http.ResponseWriter
	mu     sync.Mutex
	until  []time.Duration // the deadlines of writes, from then on; 0: none
	got    strings.Builder
	header http.Header
	code   int
	stall  <-chan struct{} // if it is not nil, writes wait for its end
}

func (s *screen) Header() http.Header  { return s.header }
func (s *screen) WriteHeader(code int) { s.code = code }
func (s *screen) Flush()               {}

func (s *screen) SetWriteDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := time.Duration(0)
	if !at.IsZero() {
		d = time.Until(at)
	}
	s.until = append(s.until, d)
	return nil
}

func (s *screen) Write(b []byte) (int, error) {
	if s.stall != nil {
		<-s.stall
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(b)
}

// take returns what has come since it was called last.
func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.got.Reset()
	return s.got.String()
}

// watch looks at the events of the page until the context ends. The channel is closed when the stream has ended.
func watch(ctx context.Context, p *gates.Page, stall <-chan struct{}) (*screen, <-chan struct{}) {
	s := &screen{header: http.Header{}, stall: stall}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.ServeHTTP(s, httptest.NewRequest(http.MethodGet, "/debug/gates/events", nil).WithContext(ctx))
	}()
	return s, ended
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// The first event has everything, with the history. Those that follow have what has changed.
func TestEvents(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := gate.Named("g", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 10, Clock: b.Clock()}))
		quiet := gate.Named("quiet", gate.NewConcurrency(1))
		p := gates.New(&gates.Options{Clock: b.Clock(), Keep: 3 * time.Second})
		defer p.Close()
		p.Gate(g, quiet)
		at := func() string { return b.Time().UTC().Format(time.RFC3339Nano) }
		enter := func(times int) {
			for range times {
				g.TryEnter(1)
			}
		}
		for n := range 6 { // the first three are forgotten
			enter(n - 1)
			b.Advance(time.Second)
			if n == 3 {
				g.SetRate(pace.PerSecond(20))
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		s, ended := watch(ctx, p, nil)
		b.Settle()
		is := func(want string) {
			b.Helper()
			if got := s.take(); got != want {
				b.Errorf("at %v\ngot  %s\nwant %s", b.Now(), got, want)
			}
		}
		const rest = `"keyed":[],"groups":[],"pipelines":[],"policies":[]`
		const still = `{"id":"g3","name":"quiet","kind":"concurrency","plan":"1 slot","can":["limit"],"measure":"in use","value":0,"limit":1,"left":1}`
		state := func(perSecond, granted, left int) string {
			pace := fmt.Sprintf(`,"perSecond":%d`, perSecond)
			if perSecond == 0 {
				pace = ""
			}
			return fmt.Sprintf(`{"id":"g2","name":"g","kind":"rate","plan":"20/s burst 10","can":["hold","rate"],"measure":"granted","value":%d,"limit":20,"granted":%d%s,"left":%d}`,
				perSecond, granted, pace, left)
		}
		is("retry: 2000\nevent: state\ndata: {\"at\":\"" + at() + `","every":1,"gates":[` + state(4, 10, 10) + `,` + still + `],"points":3,"history":{` +
			`"g2":{"n":3,"v":[2,3,4],"limit":[[0,10],[1,20]]},"g3":{"n":3,"limit":[[0,1]]}},` + rest + "}\n\n")
		enter(7)
		b.Advance(time.Second)
		is("event: tick\ndata: {\"at\":\"" + at() + `","every":1,"gates":[` + state(7, 17, 10) + "]}\n\n")
		b.Advance(time.Second)
		is("event: tick\ndata: {\"at\":\"" + at() + `","every":1,"gates":[` + state(0, 17, 10) + "]}\n\n")
		b.Advance(time.Second)
		is("event: tick\ndata: {\"at\":\"" + at() + `","every":1,"gates":[]}` + "\n\n")

		// What is added or removed comes as everything anew.
		remove := p.Gate(gate.NewConcurrency(1))
		b.Advance(time.Second)
		if got := s.take(); !strings.HasPrefix(got, "retry: 2000\nevent: state\n") || strings.Count(got, `"name"`) != 3 {
			b.Errorf("after a gate was added: %s", got)
		}
		remove()
		b.Advance(time.Second)
		if got := s.take(); !strings.HasPrefix(got, "retry: 2000\nevent: state\n") || strings.Count(got, `"name"`) != 2 {
			b.Errorf("after it was removed: %s", got)
		}

		// A viewer who leaves ends the stream.
		cancel()
		b.Settle()
		if !isClosed(ended) {
			b.Error("the stream goes on after the viewer has left")
		}
		if kind := s.header.Get("Content-Type"); kind != "text/event-stream; charset=utf-8" {
			b.Errorf("content type %q", kind)
		}
		if s.header.Get("X-Accel-Buffering") != "no" {
			b.Error("a proxy may hold events back")
		}
	})
}

// Close ends all streams, and what looks at the gates.
func TestClose(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := &counted{}
		p := gates.New(&gates.Options{Clock: b.Clock()})
		p.Gate(g)
		var all []<-chan struct{}
		for range 5 {
			_, ended := watch(context.Background(), p, nil)
			all = append(all, ended)
		}
		b.Advance(2500 * time.Millisecond)
		p.Close()
		b.Settle()
		for n, ended := range all {
			if !isClosed(ended) {
				b.Errorf("stream %d has not ended", n)
			}
		}
		looks := g.looks.Load()
		b.Advance(10 * time.Second)
		if n := g.looks.Load(); n != looks {
			b.Errorf("%d looks after Close", n-looks)
		}
		for _, path := range []string{"", "json", "events", "page.js", "explain?id=g2", "do"} {
			if w := get(p, path); w.Code != http.StatusServiceUnavailable {
				b.Errorf("%s after Close: %d", path, w.Code)
			}
		}
		p.Close()
	})
}

// counted is a gate that counts how often it is asked for its Stats.
type counted struct {
	looks atomic.Int64
	stats gate.Stats
}

func (g *counted) Enter(context.Context, int) (gate.Pass, error) { return gate.Pass{}, nil }
func (g *counted) TryEnter(int) (gate.Pass, bool)                { return gate.Pass{}, true }
func (g *counted) Stats() gate.Stats                             { g.looks.Add(1); return g.stats }

// Any number of viewers is one to the gates.
func TestOneLookForAllViewers(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		var looks []int64
		for _, viewers := range []int{0, 1, 100} {
			g := &counted{}
			p := gates.New(&gates.Options{Clock: b.Clock()})
			p.Gate(g)
			b.Advance(1500 * time.Millisecond)
			ctx, cancel := context.WithCancel(context.Background())
			var all []*screen
			for range viewers {
				s, _ := watch(ctx, p, nil)
				all = append(all, s)
			}
			b.Settle()
			g.looks.Store(0)
			b.Advance(5 * time.Second)
			looks = append(looks, g.looks.Load())
			for n, s := range all {
				if got := s.take(); got != all[0].got.String() && n > 0 && strings.Count(got, "event: tick") != 5 {
					b.Errorf("viewer %d got %s", n, got)
				}
			}
			cancel()
			b.Settle()
			p.Close()
		}
		if !slices.Equal(looks, []int64{5, 5, 5}) {
			b.Errorf("%d looks for 0, 1 and 100 viewers in 5 s, want 5 each", looks)
		}
	})
}

// Keys are looked at only while a viewer does.
func TestKeysAreReadForViewersAlone(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		g := &counted{stats: gate.Stats{Granted: 1}}
		k := gate.NewKeyed(func(int) gate.Gate { return g }, &gate.KeyedOptions{Idle: time.Hour, Clock: b.Clock()})
		k.TryEnter(1, 1)
		p := gates.New(&gates.Options{Clock: b.Clock()})
		defer p.Close()
		gates.Keyed(p, k)
		looks := func(d time.Duration) int64 {
			g.looks.Store(0)
			b.Advance(d)
			return g.looks.Load()
		}
		if n := looks(5500 * time.Millisecond); n != 0 {
			b.Errorf("%d looks at a key without a viewer", n)
		}
		ctx, cancel := context.WithCancel(context.Background())
		s, _ := watch(ctx, p, nil)
		b.Settle()
		if got := s.take(); !strings.Contains(got, `"top":[{"id":"k1-1","key":"1"`) {
			b.Errorf("the first event has no keys: %s", got)
		}
		if n := looks(5 * time.Second); n == 0 || n%5 != 0 {
			b.Errorf("%d looks with a viewer in 5 s", n)
		}
		cancel()
		b.Settle()
		if n := looks(5 * time.Second); n != 0 {
			b.Errorf("%d looks at a key after the viewer has left", n)
		}
	})
}

// A viewer who is too slow is dropped, and is in nobody's way.
func TestSlowViewer(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock()})
		defer p.Close()
		p.Gate(&counted{})
		stall := make(chan struct{})
		slow, dropped := watch(context.Background(), p, stall)
		quick, ended := watch(context.Background(), p, nil)
		b.Advance(9500 * time.Millisecond)
		if n := strings.Count(quick.take(), "event: "); n != 10 {
			b.Errorf("the quick viewer has %d events, want 10", n)
		}
		close(stall)
		b.Settle()
		if !isClosed(dropped) || isClosed(ended) {
			b.Errorf("dropped: the slow one %v, the quick one %v", isClosed(dropped), isClosed(ended))
		}
		if n := strings.Count(slow.take(), "event: "); n != 1 {
			b.Errorf("the slow viewer has %d events, want the one that it was slow to take", n)
		}
	})
}

// A write may take ten seconds, and one more once the page is closed. Between two writes there is no deadline.
func TestDeadlines(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock()})
		stall := make(chan struct{}, 2)
		stall <- struct{}{}
		stall <- struct{}{}
		s, ended := watch(context.Background(), p, stall)
		b.Advance(2 * time.Second) // the third event is stuck
		go p.Close()
		b.Settle()
		if isClosed(ended) {
			b.Error("the stream has ended, though a write is under way")
		}
		const write = 10 * time.Second
		s.mu.Lock()
		if want := []time.Duration{write, 0, write, 0, write, time.Second}; !slices.Equal(s.until, want) {
			b.Errorf("deadlines %v, want %v", s.until, want)
		}
		s.mu.Unlock()
		close(stall)
		b.Settle()
		if !isClosed(ended) {
			b.Error("the stream has not ended")
		}
	})
}

// Throttles are marks in the history: those that the page observes, and those by which a limit fell.
func TestThrottles(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock()})
		defer p.Close()
		learns := gate.Named("learns", gate.NewAdaptive(pace.PerSecond(10), &gate.AdaptiveOptions{Clock: b.Clock()}))
		observed := gate.Named("observed", gate.All(gate.NewConcurrency(9)))
		remove := p.Gate(learns, observed)
		gate.Observe(observed, p)
		throttle := func(g gate.Gate, times int) {
			for range times {
				pass, ok := g.TryEnter(1)
				if !ok {
					b.Fatal("refused")
				}
				pass.Leave(gate.Throttled(0, errors.New("429")))
			}
		}
		b.Advance(time.Second)
		throttle(learns, 1)
		throttle(observed, 2)
		p.Gate(gate.NewConcurrency(1))() // added and removed, which changes no count
		b.Advance(2 * time.Second)       // in the second one there is none
		throttle(observed, 1)
		b.Advance(time.Second)
		s, ended := watch(b.Context(), p, nil)
		b.Settle()
		got := s.take()
		for _, want := range []string{
			`"g2":{"n":3,"v":[1,0,0],"limit":[[0,5]],"throttled":[0]}`,
			`"g3":{"n":3,"v":[2,0,1],"limit":[[0,0]],"throttled":[0,2]}`,
			`"throttled":true,"throttles":3,"granted":3`,
		} {
			if !strings.Contains(got, want) {
				b.Errorf("no %s in %s", want, got)
			}
		}
		b.Advance(time.Second)
		if got := s.take(); strings.Contains(got, `"throttled":true`) || !strings.Contains(got, `"throttles":3`) {
			b.Errorf("a second later: %s", got)
		}
		// What was removed is forgotten, and what is not shown is not counted.
		remove()
		throttle(observed, 1)
		p.Gate(observed)
		if d := read(b, p); d.Gates[0].Throttles != 0 {
			b.Errorf("%d throttles of a gate that was added anew", d.Gates[0].Throttles)
		}
		p.Observe(gate.Event{Kind: gate.EventRefused, Name: "observed"})
		if d := read(b, p); d.Gates[0].Throttles != 0 {
			b.Error("a refusal is counted as a throttle")
		}
		p.Close()
		<-ended
	})
}

// What changes besides gates comes with the next tick, and alone.
func TestEventsOfTheRest(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock()})
		g := &group.Group{}
		p.Group(g)
		s, ended := watch(context.Background(), p, nil)
		b.Advance(time.Second)
		s.take()
		for _, changed := range []bool{true, false, true, false} {
			if changed {
				g.Go(func() error { return nil })
			}
			b.Advance(time.Second)
			got := s.take()
			if n := strings.Count(got, "event: tick\n"); n != 1 || strings.Contains(got, `"groups":[{"id":"j1"`) != changed {
				b.Errorf("changed %v: %s", changed, got)
			}
			if _, data, _ := strings.Cut(got, "data: "); !json.Valid([]byte(data)) {
				b.Errorf("no JSON: %s", data)
			}
		}
		p.Close()
		<-ended
	})
}

// Close does not wait for a viewer whose network has died.
func TestCloseCutsAStuckViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gates.New(nil)
		for range 1000 {
			p.Gate(gate.Named(strings.Repeat("x", 1000), gate.NewConcurrency(1)))
		}
		near, far := net.Pipe() // without a buffer, so a write is stuck as soon as the viewer reads no more
		l := make(pipeListener, 1)
		l <- far
		server := &http.Server{Handler: p}
		go server.Serve(l)
		fmt.Fprintf(near, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := bufio.NewReader(near).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		p.Close()
		if d := time.Since(began); d != time.Second {
			t.Errorf("Close took %v, want the second that a write may take", d)
		}
		near.Close()
		server.Close()
	})
}

// pipeListener has the connections of a server.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// The stream through a real server and its client.
func TestStreamOfAServer(t *testing.T) {
	p := gates.New(&gates.Options{Every: 10 * time.Millisecond})
	p.Gate(gate.NewConcurrency(3))
	server := httptest.NewUnstartedServer(p)
	server.Config.WriteTimeout = 100 * time.Millisecond // does not end a stream
	server.Start()
	defer server.Close()
	resp, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	ticks := 0
	for ticks < 30 && lines.Scan() {
		if lines.Text() == "event: tick" {
			ticks++
		}
	}
	if ticks < 30 {
		t.Errorf("%d ticks, then %v", ticks, lines.Err())
	}
	p.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream ended with %v, want a good end", err)
	}
}
