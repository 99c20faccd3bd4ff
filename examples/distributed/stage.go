package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// stage is all that takes part: the API, the Redis, the workers.
type stage struct {
	api     string // its URL
	strict  *strictapi.Server
	http    *http.Server
	served  sync.WaitGroup
	redis   *server
	workers []*worker
	began   time.Time

	mu    sync.Mutex
	calls [][]time.Time // by worker
}

func newStage(url string, workers int) (*stage, error) {
	s := &stage{calls: make([][]time.Time, workers), began: time.Now()}
	s.strict = strictapi.New(&strictapi.Options{
		Limit:   strictapi.SlidingWindow(limit, time.Second),
		Latency: strictapi.Constant(20 * time.Millisecond),
	})
	var err error
	if s.redis, err = newServer(url); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.close()
		return nil, err
	}
	s.api = "http://" + ln.Addr().String()
	s.http = &http.Server{Handler: s}
	s.served.Go(func() { s.http.Serve(ln) })
	for i := range workers {
		w := &worker{number: i + 1}
		s.workers = append(s.workers, w)
		if err := w.start(s); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// ServeHTTP notes which process made the call, and lets the API answer.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n, err := strconv.Atoi(r.Header.Get("Worker")); err == nil && n >= 1 && n <= len(s.calls) {
		s.mu.Lock()
		s.calls[n-1] = append(s.calls[n-1], time.Now())
		s.mu.Unlock()
	}
	s.strict.ServeHTTP(w, r)
}

func (s *stage) close() {
	for _, w := range s.workers {
		w.kill()
	}
	if s.http != nil {
		s.http.Close()
		s.served.Wait()
	}
	s.redis.close()
}

// table writes what the API saw, its lines ended by end.
func (s *stage) table(out io.Writer, end string) error {
	var text strings.Builder
	tw := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "worker\tcalls\tshare\tlast second\t\t")
	s.mu.Lock()
	total := 0
	for _, c := range s.calls {
		total += len(c)
	}
	now, lately := time.Now(), 0
	for i, c := range s.calls {
		last := 0
		for j := len(c) - 1; j >= 0 && now.Sub(c[j]) < time.Second; j-- {
			last++
		}
		lately += last
		state := ""
		if s.workers[i].cmd == nil {
			state = "killed"
		}
		fmt.Fprintf(tw, "%d\t%d\t%.0f %%\t%d\t%s\t\n", i+1, len(c), 100*float64(len(c))/float64(max(total, 1)), last, state)
	}
	s.mu.Unlock()
	fmt.Fprintf(tw, "all\t%d\t\t%d\t\t\n", total, lately)
	tw.Flush()
	r := s.strict.Report()
	fmt.Fprintf(&text, "\nworst second %d, limit %d, refused %d, after %v\n", r.Worst(time.Second), limit, r.Refusals, time.Since(s.began).Round(100*time.Millisecond))
	_, err := io.WriteString(out, strings.ReplaceAll(text.String(), "\n", end))
	return err
}
