package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// The page beside those of net/http/pprof.
func Example() {
	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))

	page := gates.New(&gates.Options{Title: "importer"})
	defer page.Close()
	page.Gate(api)
	mux := http.NewServeMux()
	mux.Handle("/debug/gates/", page)
	server := httptest.NewServer(mux) // in a program: http.ListenAndServe("localhost:6060", mux)
	defer server.Close()

	resp, err := http.Get(server.URL + "/debug/gates/")
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, resp.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}

// ask returns the JSON of a page.
func ask(page *gates.Page) (all struct {
	Gates []struct {
		ID, Name, Kind, Plan string
		Throttles            int
	}
	Keyed     []struct{ Top []struct{ Key string } }
	Groups    []struct{ Name string }
	Pipelines []struct{ Stages []struct{ Name string } }
	Policies  []struct{ Name string }
}) {
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/gates/json", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil {
		panic(err)
	}
	return all
}

func ExampleNew() {
	page := gates.New(&gates.Options{
		Every: 5 * time.Second, // less often than each second
		Keep:  time.Hour,
		Authorize: func(r *http.Request) bool { // holds and other plans, for operators alone
			_, password, ok := r.BasicAuth()
			return ok && password == "open sesame"
		},
	})
	defer page.Close()
	api := gate.NewRate(pace.PerSecond(100), nil)
	page.Gate(api)

	body := fmt.Sprintf(`{"id":%q,"do":"hold","for":"1h"}`, ask(page).Gates[0].ID)
	r := httptest.NewRequest(http.MethodPost, "/debug/gates/do", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	fmt.Println(w.Code, api.Stats().HeldFor > 0)

	r = httptest.NewRequest(http.MethodPost, "/debug/gates/do", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.SetBasicAuth("ann", "open sesame")
	w = httptest.NewRecorder()
	page.ServeHTTP(w, r)
	fmt.Println(w.Code, api.Stats().HeldFor > 0)
	// Output:
	// 403 false
	// 204 true
}

// An All brings its members. What was added can be removed.
func ExamplePage_Gate() {
	page := gates.New(nil)
	defer page.Close()
	remove := page.Gate(gate.Named("calls", gate.All(
		gate.Named("pace", gate.NewRate(pace.PerSecond(100), nil)),
		gate.Named("slots", gate.NewConcurrency(32)),
	)))
	for _, g := range ask(page).Gates {
		fmt.Printf("%s: %s\n", g.Name, g.Plan)
	}
	remove()
	fmt.Println(len(ask(page).Gates), "left")
	// Output:
	// calls: all of pace, slots
	// pace: 100/s burst 1
	// slots: 32 slots
	// 0 left
}

func ExamplePage_Group() {
	page := gates.New(nil)
	defer page.Close()
	jobs, _ := group.WithContext(context.Background())
	jobs.SetName("mails")
	remove := page.Group(jobs)
	defer remove() // when the group is done with
	fmt.Println(ask(page).Groups[0].Name)
	// Output: mails
}

func ExamplePage_Pipeline() {
	page := gates.New(nil)
	defer page.Close()
	double, add := &group.Meter{Name: "double"}, &group.Meter{Name: "add"}
	page.Pipeline("sums", double, add)

	g, _ := group.WithContext(context.Background())
	numbers := group.From(g, slices.Values([]int{1, 2, 3}))
	doubled := group.Map(g, numbers, func(_ context.Context, n int) (int, error) { return 2 * n, nil }, &group.Stage{Meter: double})
	sum := 0
	err := group.ForEach(g, doubled, func(_ context.Context, n int) error { sum += n; return nil }, &group.Stage{Meter: add})
	fmt.Println(sum, err)
	for _, s := range ask(page).Pipelines[0].Stages {
		fmt.Println(s.Name)
	}
	// Output:
	// 12 <nil>
	// double
	// add
}

func ExamplePage_Policy() {
	page := gates.New(nil)
	defer page.Close()
	page.Policy("api calls", &retry.Policy{Counter: &retry.Counter{}})
	fmt.Println(ask(page).Policies[0].Name)
	// Output: api calls
}

func ExampleKeyed() {
	page := gates.New(nil)
	defer page.Close()
	tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Burst: 10}) },
		&gate.KeyedOptions{Name: "tenants"})
	gates.Keyed(page, tenants)
	tenants.TryEnter("ann", 1)
	tenants.TryEnter("bob", 1)
	tenants.TryEnter("bob", 1)
	for _, k := range ask(page).Keyed[0].Top {
		fmt.Println(k.Key)
	}
	// Output:
	// bob
	// ann
}

// What Explain says of a gate is below the page, too.
func ExamplePage_ServeHTTP() {
	page := gates.New(nil)
	defer page.Close()
	page.Gate(gate.Named("slots", gate.NewConcurrency(32)))
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/gates/explain?id="+ask(page).Gates[0].ID, nil))
	fmt.Print(w.Body)
	// Output: slots: 32 slots
}

// The page counts throttles.
func ExamplePage_Observe() {
	page := gates.New(nil)
	defer page.Close()
	search := gate.Named("search", gate.NewAdaptive(pace.PerSecond(10), nil))
	page.Gate(search)
	gate.Observe(search, page)

	pass, _ := search.TryEnter(1)
	pass.Leave(gate.Throttled(0, errors.New("429 Too Many Requests")))
	fmt.Println(ask(page).Gates[0].Throttles, "throttle")
	// Output: 1 throttle
}

func ExamplePage_Close() {
	page := gates.New(nil)
	page.Close()
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/gates/", nil))
	fmt.Println(w.Code)
	// Output: 503
}
