package main

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// api is an API that judges its calls twice: together, and by route.
type api struct {
	url    string
	all    *strictapi.Server
	parts  []*strictapi.Server // one for each route
	mux    *http.ServeMux
	server http.Server
	served chan struct{} // closed when the server no longer accepts connections

	mu       sync.Mutex // guards what is below
	inFlight int
	peak     int
	refused  int // calls that found all slots taken
}

func startAPI() (*api, error) {
	a := &api{mux: http.NewServeMux(), served: make(chan struct{})}
	for _, r := range routes {
		s := strictapi.New(&strictapi.Options{
			Limit:       bucket(r),
			Concurrency: r.slots,
			Latency:     strictapi.LogNormal(r.latency, 0.3, 10*r.latency, 1),
			Ban:         &strictapi.Ban{},
		})
		a.parts = append(a.parts, s)
		a.mux.Handle(r.path, s)
	}
	// It judges and answers at once: a call takes its time on its route, and api counts its slots itself.
	a.all = strictapi.New(&strictapi.Options{Limit: bucket(total), Ban: &strictapi.Ban{}})

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a.url = "http://" + ln.Addr().String()
	a.server.Handler = a
	go func() { // ends with close, which waits for it
		defer close(a.served)
		if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			panic(err)
		}
	}()
	return a, nil
}

// bucket returns the limit of a route. It holds what a second brings, so that calls that leave evenly and
// arrive with some jitter are let through.
func bucket(r route) strictapi.Limit {
	return strictapi.LeakyBucket(r.rate.Count(), r.rate.Span(), r.rate.Count())
}

// close closes the server. The calls have been answered by then.
func (a *api) close() {
	_ = a.server.Close() // of the listener
	<-a.served
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !a.enter() {
		http.Error(w, "too many calls in flight", http.StatusTooManyRequests)
		return
	}
	left := sync.OnceFunc(a.leave)
	defer left()
	v := verdict{header: http.Header{}}
	a.all.ServeHTTP(&v, r)
	if v.status != http.StatusOK {
		v.copy(w)
		return
	}
	// The slot is free before the client can see the answer, or its next call might come too early.
	a.mux.ServeHTTP(&late{w, left}, r)
}

func (a *api) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inFlight == total.slots {
		a.refused++
		return false
	}
	a.inFlight++
	a.peak = max(a.peak, a.inFlight)
	return true
}

func (a *api) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight--
}

// verdict keeps an answer that may not be given.
type verdict struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) WriteHeader(status int)      { v.status = status }
func (v *verdict) Write(b []byte) (int, error) { return v.body.Write(b) }

func (v *verdict) copy(w http.ResponseWriter) {
	for name, values := range v.header {
		w.Header()[name] = values
	}
	w.WriteHeader(v.status)
	_, _ = w.Write(v.body.Bytes()) // the client is gone if that fails
}

// late calls left before it answers.
type late struct {
	http.ResponseWriter
	left func()
}

func (l *late) WriteHeader(status int) {
	l.left()
	l.ResponseWriter.WriteHeader(status)
}

// sight is what the API saw of a route.
type sight struct {
	route
	calls    int
	achieved float64 // calls a second, by the gaps between them
	peak     int
	refused  int
}

// seen returns what the API saw of each route, and of all together.
func (a *api) seen() (all []sight) {
	for i, r := range routes {
		all = append(all, look(r, a.parts[i]))
	}
	s := look(total, a.all)
	a.mu.Lock()
	defer a.mu.Unlock()
	s.calls += a.refused
	s.refused += a.refused
	s.peak = a.peak
	return append(all, s)
}

func look(r route, from *strictapi.Server) sight {
	report := from.Report()
	s := sight{route: r, calls: report.Calls, peak: report.PeakInFlight, refused: report.Refusals}
	if log := from.Log(); len(log) > 1 {
		s.achieved = float64(len(log)-1) / (log[len(log)-1].At - log[0].At).Seconds()
	}
	return s
}
