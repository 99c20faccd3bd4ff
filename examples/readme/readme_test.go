// Package readme_test runs the snippets of the README against the strict API. Each Go snippet there is
// part, word for word, of a function here or of a small program. All of these are run by tests.
package readme_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/examples/internal/get"
	"github.com/escapement-go/escapement/examples/internal/memnet"
	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// small are the programs that show one thing each, in one file, with a test that runs them.
var small = []string{"quickstart", "download", "worker", "inbound", "client"}

// long are programs of one file that are a little longer.
var long = []string{"llm"}

// Every snippet is code that a test runs.
func TestSnippets(t *testing.T) {
	readme := read(t, "../../README.md")
	sources := []string{read(t, "readme_test.go")}
	for _, name := range slices.Concat(small, long) {
		sources = append(sources, read(t, filepath.Join("..", name, "main.go")))
	}
	snippets := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(readme, -1)
	if len(snippets) < 6 {
		t.Errorf("%d snippets, want all of them", len(snippets))
	}
	for _, s := range snippets {
		if !slices.ContainsFunc(sources, func(text string) bool { return contains(text, s[1]) }) {
			t.Errorf("no test runs this snippet of the README:\n%s", s[1])
		}
	}
}

// contains reports whether text has the snippet, at whatever depth.
func contains(text, snippet string) bool {
	for depth := range 4 {
		indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(snippet, strings.Repeat("\t", depth)+"$1")
		if strings.Contains("\n"+text, "\n"+indented) {
			return true
		}
	}
	return false
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// The small programs stay small.
func TestSmall(t *testing.T) {
	for _, name := range slices.Concat(small, long) {
		most := 60
		if slices.Contains(long, name) {
			most = 105
		}
		if n := strings.Count(read(t, filepath.Join("..", name, "main.go")), "\n"); n > most {
			t.Errorf("%s has %d lines, want at most %d", name, n, most)
		}
		files, err := filepath.Glob(filepath.Join("..", name, "*.go"))
		if want := 2; err != nil || len(files) != want {
			t.Errorf("%s has the files %q, want main.go and its test", name, files)
		}
	}
}

// against runs f against the strict API and returns what that saw.
func against(t *testing.T, o *strictapi.Options, f func(t *testing.T)) (r strictapi.Report) {
	synctest.Test(t, func(t *testing.T) {
		api := strictapi.New(o)
		memnet.Serve(t, api)
		f(t)
		r = api.Report()
	})
	t.Log(r)
	return r
}

// newLimit is the gate of the first snippet.
func newLimit() gate.Gate {
	return gate.All(
		gate.NewRate(pace.PerSecond(100), nil),
		gate.NewWindow(100, time.Second, &gate.WindowOptions{UntilAnswer: true}),
		gate.NewConcurrency(32),
	)
}

type page struct{ text string }

func TestPipeline(t *testing.T) {
	const n = 400
	lines := func(file string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for range n {
				if !yield(file, nil) {
					return
				}
			}
		}
	}
	fetch := func(ctx context.Context, url string) (page, error) {
		text, err := get.Text(ctx, http.DefaultClient, url)
		return page{text}, err
	}
	stored := 0
	store := func(_ context.Context, batch []page) error {
		stored += len(batch)
		return nil
	}
	pipeline := func(ctx context.Context, file string, limit gate.Gate) error {
		g, _ := group.WithContext(ctx)
		urls := group.From2(g, lines(file))              // an iter.Seq2[string, error]
		pages := group.Map(g, urls, fetch, &group.Stage{ // func(context.Context, string) (page, error)
			Workers: 32,
			Ordered: true,  // results come out in order …
			Buffer:  1000,  // … and a slow one does not idle the gate
			Gate:    limit, // a gate.All, as above
		})
		batches := group.Batch(g, pages, 500, &group.BatchOptions{Wait: time.Second})
		err := group.ForEach(g, batches, store, nil) // func(context.Context, []page) error
		return err
	}
	r := against(t, strictapi.Demo(), func(t *testing.T) {
		if err := pipeline(t.Context(), memnet.URL, newLimit()); err != nil {
			t.Error(err)
		}
	})
	if stored != n || r.ByStatus[http.StatusOK] != n || r.Refusals != 0 {
		t.Errorf("%d stored, want %d and no refusal: %v", stored, n, r)
	}
}

// The API allows 60 calls a second, and the gate was told 100. Calls in flight at a 429 are forgiven.
func unforeseen() *strictapi.Options {
	o := strictapi.Demo()
	o.Limit = strictapi.Advertise(o.Limit, strictapi.SlidingWindow(60, time.Second))
	o.Ban = &strictapi.Ban{Grace: 2 * time.Second}
	return o
}

// call makes the first call of a client, and returns that, too.
func call(url string) (*http.Client, *http.Response, error) {
	adaptive := gate.NewAdaptive(pace.PerSecond(100), nil)
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: &retry.Policy{
			Gate:           gate.All(adaptive, gate.NewConcurrency(32)),
			Elapsed:        5 * time.Minute,  // from the call to its last attempt, all waits included
			AttemptTimeout: 10 * time.Second, // of one attempt, without its wait at the gate
			MaxRetryAfter:  time.Minute,      // a call that is told to wait for longer gets the 429
		},
	}}
	resp, err := client.Get(url) // 429s, 503s and lost connections are dealt with
	return client, resp, err
}

func TestTransport(t *testing.T) {
	const n = 400
	r := against(t, unforeseen(), func(t *testing.T) {
		client, resp, err := call(memnet.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s, error %v", resp.Status, err)
		}
		resp.Body.Close()
		g, ctx := group.WithContext(t.Context())
		for range n - 1 {
			g.Go(func() error { return get.Call(ctx, client, memnet.URL) })
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	if r.ByStatus[http.StatusOK] != n || r.ByStatus[http.StatusTooManyRequests] == 0 || r.Bans != 0 {
		t.Errorf("want %d answers, some 429 and no ban: %v", n, r)
	}
}

func TestPolicy(t *testing.T) {
	const n = 300
	fetch := func(ctx context.Context, url string) error { return get.Call(ctx, http.DefaultClient, url) }
	calls := func(ctx context.Context, url string, policy *retry.Policy) error {
		g, ctx := group.WithContext(ctx)
		for range n {
			g.Go(func() error {
				return retry.Run(ctx, policy, func(ctx context.Context) error { return fetch(ctx, url) })
			})
		}
		return g.Wait()
	}
	o := strictapi.Demo()
	o.Moods = []strictapi.Mood{strictapi.Share(0.1, strictapi.Fault{Status: http.StatusServiceUnavailable}, 1)}
	r := against(t, o, func(t *testing.T) {
		if err := calls(t.Context(), memnet.URL, &retry.Policy{Gate: newLimit(), Attempts: 10}); err != nil {
			t.Error(err)
		}
	})
	if r.ByStatus[http.StatusOK] != n || r.ByStatus[http.StatusServiceUnavailable] == 0 || r.Refusals != 0 {
		t.Errorf("want %d answers, some 503 and no refusal: %v", n, r)
	}
}

// ask asks the LLM a question for at most so many tokens and returns what it has cost.
func ask(ctx context.Context, most int) (u strictapi.Usage, err error) {
	body, err := json.Marshal(strictapi.Question{Prompt: "Tell me a story.", MaxTokens: most - 4})
	if err != nil {
		return u, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, memnet.URL, bytes.NewReader(body))
	if err != nil {
		return u, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	_, usage, ok := strings.Cut(string(text), `"usage":`)
	if err == nil && !ok {
		return u, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return u, errors.Join(err, json.NewDecoder(strings.NewReader(usage)).Decode(&u))
}

func TestTokens(t *testing.T) {
	const n, most = 1000, 504
	limited := func() func(ctx context.Context, call func(context.Context) (int, error)) error {
		until := &gate.WindowOptions{UntilAnswer: true}
		limit := gate.All(
			gate.Each(gate.NewWindow(500, time.Minute, until)), // an entry counts 1 here
			gate.NewWindow(90_000, time.Minute, until),         // and here what it costs
			gate.Each(gate.NewConcurrency(40)),
		)
		return func(ctx context.Context, call func(context.Context) (int, error)) error {
			pass, err := limit.Enter(ctx, most)
			if err != nil {
				return err
			}
			used, err := call(ctx)
			if err == nil {
				pass.Settle(used) // what failed stays charged: the API may have counted it
			}
			pass.Leave(err)
			return err
		}
	}
	synctest.Test(t, func(t *testing.T) {
		api := strictapi.NewLLM(strictapi.DemoLLM(time.Minute))
		memnet.Serve(t, api)
		do := limited()
		g, ctx := group.WithContext(t.Context())
		for range n {
			g.Go(func() error {
				return do(ctx, func(ctx context.Context) (int, error) {
					u, err := ask(ctx, most)
					return u.Total(), err
				})
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		r := api.Report()
		t.Log(r)
		if r.Answered != n || r.Refused+r.Cut != 0 || r.Limit("tokens").Used < 0.96 {
			t.Errorf("want %d answers, and 96 %% of the tokens used", n)
		}
	})
}

func TestTokensEach(t *testing.T) {
	const n = 600
	type usage struct{ input, output int }
	synctest.Test(t, func(t *testing.T) {
		api := strictapi.NewLLM(&strictapi.LLMOptions{
			Requests: 500, Input: 360_000, Output: 400_000, Concurrency: 40,
			First: strictapi.Constant(time.Second), Answer: func(call int, _ strictapi.Question) int { return 500 + 7*(call%500) },
		})
		memnet.Serve(t, api)
		until := &gate.WindowOptions{UntilAnswer: true}
		requests, slots := gate.NewWindow(500, time.Minute, until), gate.NewConcurrency(40)
		input, output := gate.NewWindow(360_000, time.Minute, until), gate.NewWindow(400_000, time.Minute, until)
		limit := gate.All(requests, input, output, slots)
		do := func(ctx context.Context, call func(context.Context) (usage, error)) error {
			pass, err := limit.EnterEach(ctx, 1, 1_200, 4_096, 1)
			if err != nil {
				return err
			}
			used, err := call(ctx)
			if err == nil {
				pass.SettleEach(1, used.input, used.output, 1)
			}
			pass.Leave(err)
			return err
		}
		g, ctx := group.WithContext(t.Context())
		for range n {
			g.Go(func() error {
				return do(ctx, func(ctx context.Context) (usage, error) {
					u, err := ask(ctx, 4_096)
					return usage{u.Input, u.Output}, err
				})
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		r := api.Report()
		t.Log(r)
		if l := r.Limit("output-tokens"); r.Answered != n || r.Refused+r.Cut != 0 || l.Used < 0.9 {
			t.Errorf("want %d answers, and 90 %% of the output used", n)
		}
	})
}

// What the README warns of is refused, and the caller is banned.
func TestByHand(t *testing.T) {
	fetch := func(ctx context.Context, url string) error { return get.Call(ctx, http.DefaultClient, url) }
	byHand := func(ctx context.Context, urls []string) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(32)
		limiter := rate.NewLimiter(100, 100) // golang.org/x/time/rate
		for _, url := range urls {
			g.Go(func() error {
				if err := limiter.Wait(ctx); err != nil {
					return err
				}
				return fetch(ctx, url)
			})
		}
		return g.Wait()
	}
	r := against(t, strictapi.Demo(), func(t *testing.T) {
		if err := byHand(t.Context(), slices.Repeat([]string{memnet.URL}, 300)); err == nil {
			t.Error("no error")
		}
	})
	if r.Refusals == 0 || r.ByStatus[http.StatusOK] > 110 {
		t.Errorf("want refusals soon after the first 100 calls: %v", r)
	}
}

// The Timeout of an http.Client includes the wait at the gate. AttemptTimeout does not.
func TestTimeout(t *testing.T) {
	const n = 1000
	failed := func(t *testing.T, client *http.Client) int {
		errs := make(chan error)
		for range n {
			go func() { errs <- get.Call(t.Context(), client, memnet.URL) }()
		}
		failed := 0
		for range n {
			if err := <-errs; err != nil {
				failed++
			}
		}
		return failed
	}
	transport := func(timeout time.Duration) *retryhttp.Transport {
		return &retryhttp.Transport{Policy: &retry.Policy{Gate: newLimit(), AttemptTimeout: timeout}}
	}
	against(t, strictapi.Demo(), func(t *testing.T) {
		got := failed(t, &http.Client{Transport: transport(0), Timeout: 2 * time.Second})
		if got < 790 || got > 830 {
			t.Errorf("with a Timeout of 2s %d of %d calls failed, want some 800", got, n)
		}
	})
	against(t, strictapi.Demo(), func(t *testing.T) {
		if got := failed(t, &http.Client{Transport: transport(2 * time.Second)}); got != 0 {
			t.Errorf("with an AttemptTimeout of 2s %d of %d calls failed, want none", got, n)
		}
	})
}

// The member that blocks the waiters counts them.
func TestWhatKeepsCallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := gate.NewRate(pace.PerSecond(100), nil)
		slots := gate.NewConcurrency(4)
		limit := gate.All(rate, slots)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var work atomic.Int64 // how long a call takes
		work.Store(int64(time.Millisecond))
		g, _ := group.WithContext(ctx)
		g.SetGate(limit)
		for range 400 {
			g.Go(func() error {
				time.Sleep(time.Duration(work.Load()))
				return nil
			})
		}
		waiting := func() string {
			time.Sleep(time.Second + time.Millisecond/2)
			synctest.Wait()
			return fmt.Sprint(limit.Stats().Waiting, rate.Stats().Waiting, slots.Stats().Waiting)
		}
		if got, want := waiting(), "299 299 0"; got != want {
			t.Errorf("all, rate and slots: waiting %s, want %s", got, want)
		}
		work.Store(int64(time.Hour))
		if got, want := waiting(), "295 0 295"; got != want {
			t.Errorf("all, rate and slots: waiting %s, want %s", got, want)
		}
		stop := errors.New("enough")
		cancel(stop)
		if err := g.Wait(); !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}

// The page of a program.
func TestPage(t *testing.T) {
	limit := gate.NewConcurrency(1)
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, nil)
	var fetching, storing group.Meter

	page := gates.New(nil)
	page.Gate(limit)                             // an All brings its members
	gates.Keyed(page, tenants)                   // the busiest keys
	page.Pipeline("import", &fetching, &storing) // the meters of its stages
	http.Handle("/debug/gates/", page)

	defer page.Close()
	w := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/gates/", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<h1>Gates</h1>") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
