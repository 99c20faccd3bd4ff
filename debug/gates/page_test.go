package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
)

// get returns what the page answers to a GET.
func get(p *gates.Page, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/gates/"+path, nil))
	return w
}

// document is the part of the JSON that tests look at.
type document struct {
	At    time.Time
	Gates []struct {
		ID, Name, Kind, Plan, Parent, Measure string
		Can                                   []string
		Value, Limit, Most, PerSecond         float64
		Granted, Throttles                    uint64
		Waiting                               int
		Since, HeldUntil                      time.Time
		Held                                  bool
		Left                                  *int
	}
	Keyed []struct {
		ID, Name string
		Keys     int
		Granted  uint64
		NoRoom   uint64
		Top      []struct {
			ID, Key   string
			Plan      string
			Granted   uint64
			PerSecond float64
			Waiting   int
		}
	}
	Groups    []map[string]any
	Pipelines []struct {
		Name    string
		Slowest int
		Stages  []struct {
			Name                            string
			In, Out                         uint64
			PerSecond                       float64
			Idle, AtGate, InFlight, Blocked int
		}
	}
	Policies []map[string]any
}

// read returns the JSON of the page.
func read(t testing.TB, p *gates.Page) (d document) {
	t.Helper()
	w := get(p, "json")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("json: %d, %q", w.Code, w.Header())
	}
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return d
}

// A run of which everything is known.
func TestJSONOfARun(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		api := gate.Named("api", gate.NewRate(pace.PerSecond(10), &gate.RateOptions{Clock: b.Clock()}))
		slots := gate.Named("slots", gate.NewConcurrency(3))
		both := gate.Named("both", gate.All(api, gate.Each(slots)))
		p := gates.New(&gates.Options{Clock: b.Clock()})
		defer p.Close()
		p.Gate(both)
		b.Advance(50 * time.Millisecond) // so that no entry is due at the instant of a tick
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		for range 25 { // at 50, 150, ... ms; each takes 150 ms
			go func() {
				done <- gate.Do(ctx, both, 1, func(context.Context) error { b.Sleep(150 * time.Millisecond); return nil })
			}()
		}
		b.AdvanceTo(1500 * time.Millisecond)
		both.Hold(5 * time.Second)
		b.AdvanceTo(2050 * time.Millisecond)

		at := func(d time.Duration) string { return b.Time().Add(d - b.Now()).UTC().Format(time.RFC3339Nano) }
		want := fmt.Sprintf(`{"at":%q,"every":1,"gates":[`+
			`{"id":"g2","name":"both","kind":"all","plan":"all of api, slots","can":["hold"],"measure":"granted","value":5,"granted":15,"perSecond":5,`+
			`"waiting":10,"since":%q,"waited":10.5,"left":0,"held":true,"heldUntil":%q},`+
			`{"id":"g3","name":"api","kind":"rate","plan":"10/s burst 1","parent":"g2","can":["hold","rate"],"measure":"granted","value":5,"limit":10,`+
			`"granted":15,"perSecond":5,"waited":10.5,"left":1},`+
			`{"id":"g4","name":"slots","kind":"concurrency","plan":"3 slots","parent":"g2","can":["limit"],"measure":"in use","value":0,"limit":3,"granted":15,"perSecond":5,"left":3}`+
			`],"keyed":[],"groups":[],"pipelines":[],"policies":[]}`+"\n", at(2050*time.Millisecond), at(50*time.Millisecond), at(6500*time.Millisecond))
		if got := get(p, "json").Body.String(); got != want {
			b.Errorf("got  %s\nwant %s", got, want)
		}
		cancel()
		for range 25 {
			b.Advance(0)
			<-done
		}
	})
}

// What is drawn of which gate.
func TestMeasures(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock()})
		defer p.Close()
		adaptive := gate.NewAdaptive(pace.PerSecond(20), &gate.AdaptiveOptions{Clock: b.Clock()})
		slots := gate.NewAdaptiveConcurrency(40, &gate.AdaptiveConcurrencyOptions{Clock: b.Clock()})
		p.Gate(
			gate.NewRate(pace.Per(1, 2*time.Second), &gate.RateOptions{Clock: b.Clock()}),
			gate.NewRate(pace.PerHour(1), &gate.RateOptions{Clock: b.Clock()}),
			gate.NewRate(pace.Unlimited(), &gate.RateOptions{Clock: b.Clock()}),
			gate.NewWindow(7, time.Hour, &gate.WindowOptions{Clock: b.Clock()}),
			gate.NewConcurrency(5), adaptive, slots, gate.Of(waiter{}), elsewhere{},
		)
		pass, _ := adaptive.TryEnter(1)
		pass.Leave(gate.Throttled(0, errors.New("429")))
		held, _ := slots.TryEnter(4)
		defer held.Leave(nil)
		type row struct {
			kind, measure      string
			value, limit, most float64
		}
		var got []row
		for _, g := range read(b, p).Gates {
			got = append(got, row{g.Kind, g.Measure, g.Value, g.Limit, g.Most})
		}
		learned := 1 / adaptive.Interval().Seconds()
		if learned >= 20 {
			b.Errorf("the gate has learned nothing: %v", learned)
		}
		want := []row{
			{"rate", "granted", 0, 0.5, 0},
			{"rate", "granted", 0, 0.000278, 0},
			{"rate", "granted", 0, 0, 0},
			{"window", "in use", 0, 7, 0},
			{"concurrency", "in use", 0, 5, 0},
			{"adaptive", "granted", 0, float64(int(learned*100+0.5)) / 100, 20},
			{"adaptiveconcurrency", "in use", 4, float64(slots.Limit()), 40},
			{"of", "granted", 0, 0, 0},
			{"", "granted", 0, 0, 0},
		}
		if !reflect.DeepEqual(got, want) {
			b.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// One entry waits, and a hold never ends.
func TestWaitsAndHolds(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock()})
		defer p.Close()
		one := gate.NewWindow(1, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		held := gate.NewRate(pace.Unlimited(), &gate.RateOptions{Clock: b.Clock()})
		free := gate.NewWindow(3, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		p.Gate(one, held, free)
		held.Hold(math.MaxInt64)
		one.TryEnter(1)
		arrived := b.Time()
		entered := make(chan error, 1)
		go func() {
			_, err := one.Enter(context.Background(), 1)
			entered <- err
		}()
		b.Advance(300 * time.Millisecond)
		d := read(b, p).Gates
		if g := d[0]; g.Waiting != 1 || !g.Since.Equal(arrived) || g.Held || g.Left == nil || *g.Left != 0 {
			b.Errorf("%+v, want one entry that waits since %v", g, arrived)
		}
		if g := d[1]; !g.Held || !g.HeldUntil.IsZero() {
			b.Errorf("%+v, want a hold without an end", g)
		}
		if g := d[2]; g.Waiting != 0 || !g.Since.IsZero() || g.Held || *g.Left != 3 {
			b.Errorf("%+v, want nothing that waits", g)
		}
		b.Advance(time.Second)
		if err := <-entered; err != nil {
			b.Error(err)
		}
		held.Resume()
		if g := read(b, p).Gates[1]; g.Held || g.Left != nil {
			b.Errorf("%+v, want no limit", g)
		}
	})
}

// waiter is a limiter from elsewhere, and elsewhere a gate that tells nothing. Neither admits anything.
type waiter struct{}

func (waiter) Wait(context.Context) error { return errors.New("no") }

type elsewhere struct{ _ []int } // two of them can't be compared

func (elsewhere) Enter(context.Context, int) (gate.Pass, error) { return gate.Pass{}, errors.New("no") }
func (elsewhere) TryEnter(int) (gate.Pass, bool)                { return gate.Pass{}, false }

// A gate is shown once, with its members behind it, until what added it is removed.
func TestWhatIsShown(t *testing.T) {
	p := gates.New(nil)
	defer p.Close()
	names := func() string {
		var all []string
		for _, g := range read(t, p).Gates {
			if g.Parent != "" {
				g.Name += "<" + g.Parent
			}
			all = append(all, g.ID+" "+g.Name)
		}
		return strings.Join(all, ", ")
	}
	is := func(want string) {
		t.Helper()
		if got := names(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	a, c := gate.Named("a", gate.NewConcurrency(1)), gate.Named("c", gate.NewConcurrency(1))
	inner := gate.Named("inner", gate.All(gate.Each(a), c))
	outer := gate.Named("outer", gate.All(inner, gate.Named("d", gate.NewConcurrency(1))))
	removeAll := p.Gate(outer)
	is("g2 outer, g3 inner<g2, g4 a<g3, g5 c<g3, g6 d<g2")
	if can := read(t, p).Gates[2].Can; !reflect.DeepEqual(can, []string{"limit"}) {
		t.Errorf("a, named by a view, can be changed: %v, want its limit", can)
	}
	removeA := p.Gate(a, c, outer)
	is("g2 outer, g3 inner<g2, g4 a<g3, g5 c<g3, g6 d<g2")
	removeAll()
	is("g2 outer, g3 inner<g2, g6 d<g2, g4 a, g5 c")
	removeA()
	is("")
	p.Gate(elsewhere{}, elsewhere{}, inner)
	is("g9 gates_test.elsewhere, g10 gates_test.elsewhere, g11 inner, g12 a<g11, g13 c<g11")
	removeAll()
	removeA()
	is("g9 gates_test.elsewhere, g10 gates_test.elsewhere, g11 inner, g12 a<g11, g13 c<g11")
}

// Two gates with one name are two gates, also as members.
func TestMembersWithOneName(t *testing.T) {
	p := gates.New(nil)
	defer p.Close()
	api := func(n int) gate.Gate {
		return gate.Named("api", gate.All(gate.Named("slots", gate.NewConcurrency(n)), gate.Each(gate.Named("slots", gate.NewConcurrency(n+1)))))
	}
	p.Gate(api(1), api(3))
	var plans []string
	for _, g := range read(t, p).Gates {
		plans = append(plans, g.Plan)
	}
	if want := []string{"all of slots, slots", "1 slot", "2 slots", "all of slots, slots", "3 slots", "4 slots"}; !reflect.DeepEqual(plans, want) {
		t.Errorf("got %q, want %q", plans, want)
	}
}

// What is on the page is what was added and not removed, in any order, each gate once. No gate is below one that is not
// there.
func TestShownUntilAllAreRemoved(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := gates.New(nil)
		defer p.Close()
		var all []gate.Gate
		members := map[gate.Gate][]gate.Gate{}
		for n := range 3 {
			all = append(all, gate.Named(fmt.Sprint("slots", n), gate.NewConcurrency(1)))
		}
		some := func(what string) (gates []gate.Gate) {
			for _, n := range rapid.SliceOfN(rapid.IntRange(0, len(all)-1), 1, 3).Draw(rt, what) {
				gates = append(gates, all[n])
			}
			return gates
		}
		for n := range 4 {
			named := some("members")
			var views []gate.Gate
			for _, g := range named {
				if rapid.Bool().Draw(rt, "view") {
					g = gate.WithCost(gate.Each(g), 1)
				}
				views = append(views, g)
			}
			a := gate.Named(fmt.Sprint("all", n), gate.All(views...))
			all, members[a] = append(all, a), named
		}
		type added struct {
			remove func()
			gates  []gate.Gate
		}
		var adds []added
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if len(adds) > 0 && rapid.Bool().Draw(rt, "remove") {
				n := rapid.IntRange(0, len(adds)-1).Draw(rt, "which")
				adds[n].remove()
				adds = append(adds[:n], adds[n+1:]...)
			} else {
				gates := some("gates")
				adds = append(adds, added{p.Gate(gates...), gates})
			}
			want, got, ids := map[string]bool{}, map[string]bool{}, map[string]bool{"": true}
			var add func(gates []gate.Gate)
			add = func(gates []gate.Gate) {
				for _, g := range gates {
					want[gate.NameOf(g)] = true
					add(members[g])
				}
			}
			for _, a := range adds {
				add(a.gates)
			}
			shown := read(t, p).Gates
			for _, g := range shown {
				got[g.Name], ids[g.ID] = true, true
			}
			for _, g := range shown {
				if !ids[g.Parent] {
					rt.Errorf("%s is below %s, which is not there", g.Name, g.Parent)
				}
			}
			if !reflect.DeepEqual(got, want) || len(shown) != len(want) {
				rt.Fatalf("%d gates, %v, want %v", len(shown), got, want)
			}
		}
	})
}

// Gates can be added and removed while the page looks at them: the race detector checks that.
func TestAddedWhileLookedAt(t *testing.T) {
	p := gates.New(nil)
	defer p.Close()
	slots := gate.NewConcurrency(1)
	outer := gate.All(gate.Each(slots))
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for range 200 {
				get(p, "json")
			}
		})
	}
	for range 200 {
		removeOuter := p.Gate(outer)
		runtime.Gosched()
		removeSlots := p.Gate(slots)
		removeOuter()
		removeSlots()
	}
	others.Wait()
}

// A member that was removed by itself stays below the All that has it.
func TestMemberStays(t *testing.T) {
	p := gates.New(nil)
	defer p.Close()
	a := gate.Named("a", gate.NewConcurrency(1))
	inner := gate.Named("inner", gate.All(a))
	removeA := p.Gate(a)
	p.Gate(inner)
	removeA()
	p.Gate(gate.Named("outer", gate.All(inner)))
	var got []string
	for _, g := range read(t, p).Gates {
		got = append(got, g.ID+" "+g.Name+" "+g.Parent)
	}
	if want := []string{"g4 inner ", "g2 a g4", "g6 outer "}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGroupsPipelinesPoliciesAndTheirEnd(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock(), Every: 500 * time.Millisecond})
		defer p.Close()

		g, ctx := group.WithContext(context.Background())
		g.SetName("jobs")
		g.SetLimit(2)
		removeGroup := p.Group(g)
		go func() {
			for range 3 {
				g.Go(func() error { b.Sleep(10 * time.Second); return nil })
			}
		}()

		// The second stage takes 100 ms an item with one worker; the others are faster.
		slow := func(d time.Duration) func(context.Context, int) (int, error) {
			return func(_ context.Context, n int) (int, error) { b.Sleep(d); return n, nil }
		}
		meters := []*group.Meter{{Name: "first"}, {Name: "second"}, {}}
		line, _ := group.WithContext(ctx)
		numbers := group.From(line, func(yield func(int) bool) {
			for n := 0; n < 150 && yield(n); n++ {
			}
		})
		first := group.Map(line, numbers, slow(50*time.Millisecond), &group.Stage{Workers: 2, Meter: meters[0]})
		second := group.Map(line, first, slow(100*time.Millisecond), &group.Stage{Meter: meters[1]})
		ended := make(chan error, 1)
		go func() {
			ended <- group.ForEach(line, second, func(context.Context, int) error { b.Sleep(10 * time.Millisecond); return nil }, &group.Stage{Workers: 3, Meter: meters[2]})
		}()
		removeLine := p.Pipeline("line", meters...)

		counter := &retry.Counter{Name: "calls"}
		policy := &retry.Policy{Counter: counter, Clock: b.Clock(), Backoff: retry.Constant(time.Second), Budget: &retry.Budget{Saved: 7, Clock: b.Clock()}}
		removePolicy := p.Policy("", policy)
		p.Policy("named", &retry.Policy{Counter: counter})
		failed := make(chan error, 1)
		go func() {
			tries := 0
			failed <- retry.Run(context.Background(), policy, func(context.Context) error {
				if tries++; tries < 3 {
					return errors.New("no")
				}
				return nil
			})
		}()

		b.AdvanceTo(3020 * time.Millisecond)
		d := read(b, p)
		s := d.Pipelines[0]
		if s.Name != "line" || s.Slowest != 1 || len(s.Stages) != 3 {
			b.Errorf("%+v, want a pipeline of three stages with the second as the slowest", s)
		}
		if s := s.Stages[1]; s.Name != "second" || s.PerSecond != 10 || s.In != 30 || s.Out != 29 || s.InFlight != 1 {
			b.Errorf("second stage: %+v", s)
		}
		if s := s.Stages[0]; s.Blocked != 2 {
			b.Errorf("first stage: %+v, want two blocked", s)
		}
		if s := s.Stages[2]; s.Idle+s.InFlight != 3 || s.Name != "" {
			b.Errorf("third stage: %+v, want three idle", s)
		}
		if j := d.Groups[0]; j["name"] != "jobs" || j["limit"] != 2.0 || j["running"] != 2.0 {
			b.Errorf("group: %v", j)
		}
		if c := d.Policies[0]; c["name"] != "calls" || c["calls"] != 1.0 || c["attempts"] != 3.0 || c["retries"] != 2.0 || c["succeeded"] != 1.0 || c["slept"] != 2.0 || c["budget"] == nil {
			b.Errorf("policy: %v", c)
		}
		if c := d.Policies[1]; c["name"] != "named" || c["calls"] != 1.0 || c["budget"] != nil {
			b.Errorf("policy: %v", c)
		}
		b.Advance(20 * time.Second)
		if s := read(b, p).Pipelines[0]; s.Slowest != -1 {
			b.Errorf("%+v, want none that holds up the others when it has ended", s)
		}
		removeGroup()
		removeLine()
		removePolicy()
		if d := read(b, p); len(d.Groups)+len(d.Pipelines) != 0 || len(d.Policies) != 1 {
			b.Errorf("after all but one was removed: %+v", d)
		}
		if err := errors.Join(<-ended, <-failed, g.Wait(), line.Wait()); err != nil {
			b.Error(err)
		}
	})
}

func TestKeys(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock(), Keys: 2})
		defer p.Close()
		k := gate.NewKeyed(func(string) gate.Gate {
			return gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Burst: 10, Clock: b.Clock()})
		},
			&gate.KeyedOptions{Name: "tenants", MaxKeys: 3, Clock: b.Clock()})
		remove := gates.Keyed(p, k)
		enter := func(key string, times int) {
			for range times {
				k.TryEnter(key, 1)
			}
		}
		enter("ann", 3)
		enter("bob", 5)
		enter("cid", 1)
		enter("dan", 1)
		d := read(b, p).Keyed[0]
		if d.Name != "tenants" || d.Keys != 3 || d.NoRoom != 1 || d.Granted != 9 || len(d.Top) != 2 || d.Top[0].Key != "bob" || d.Top[1].Key != "ann" || d.Top[0].Granted != 5 || d.Top[0].Plan != "1/s burst 10" {
			b.Errorf("%+v", d)
		}
		bob := d.Top[0].ID
		b.Advance(2 * time.Second)
		enter("bob", 4)
		enter("cid", 4)
		d = read(b, p).Keyed[0]
		if d.Top[0].ID != bob || d.Top[0].PerSecond != 2 || d.Top[1].Key != "cid" || d.Top[1].PerSecond != 0 {
			b.Errorf("%+v, want the id of bob to be %s as before, and 2/s", d, bob)
		}
		if w := get(p, "explain?id="+bob); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "tenants[bob]") {
			b.Errorf("explain: %d, %s", w.Code, w.Body)
		}
		remove()
		if d := read(b, p); len(d.Keyed) != 0 {
			b.Errorf("%+v", d.Keyed)
		}
		if w := get(p, "explain?id="+bob); w.Code != http.StatusNotFound {
			b.Errorf("explain of a key that is not shown: %d", w.Code)
		}
	})
}

// Names and keys are texts, whatever they have in them.
func TestHostileNames(t *testing.T) {
	const name = `</title><script>alert(1)</script>` + "\x00\n\ndata: x\r\n\u2028\xff"
	p := gates.New(&gates.Options{Title: name})
	defer p.Close()
	p.Gate(gate.Named(name, gate.NewConcurrency(1)))
	k := gate.NewKeyed(func(string) gate.Gate { return gate.NewConcurrency(1) }, &gate.KeyedOptions{Name: name})
	k.TryEnter(name, 1)
	k.TryEnter(strings.Repeat("é", 1000), 1)
	gates.Keyed(p, k)
	p.Pipeline(name, &group.Meter{Name: name})
	p.Policy(name, &retry.Policy{})
	for _, path := range []string{"", "json"} {
		body := get(p, path).Body.String()
		if strings.Contains(body, "<script>alert") {
			t.Errorf("%q has the script: %s", path, body)
		}
		if path == "json" && strings.Count(body, "\n") != 1 {
			t.Errorf("%q has line ends inside: %q", path, body)
		}
	}
	d := read(t, p)
	want := strings.ToValidUTF8(name, "\ufffd")
	if d.Gates[0].Name != want || d.Keyed[0].Name != want || d.Pipelines[0].Name != want || d.Policies[0]["name"] != want {
		t.Errorf("names are not as they were given: %+v", d)
	}
	for _, k := range d.Keyed[0].Top {
		if k.Key != want && k.Key != strings.Repeat("é", 100)+"…" {
			t.Errorf("key %q", k.Key)
		}
	}
}

// The page works under any prefix, loads nothing from elsewhere, and tells browsers so.
func TestFiles(t *testing.T) {
	p := gates.New(nil)
	defer p.Close()
	mux := http.NewServeMux()
	mux.Handle("/a/b/", p)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", p))
	for _, c := range []struct {
		method, path string
		code         int
		kind         string
	}{
		{"GET", "/a/b/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/a/b/", 200, "text/html; charset=utf-8"},
		{"GET", "/a/b/page.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/a/b/page.css", 200, "text/css; charset=utf-8"},
		{"GET", "/a/b/json", 200, "application/json"},
		{"GET", "/stripped/", 200, "text/html; charset=utf-8"},
		{"GET", "/stripped/page.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/a/b/page.html", 404, "text/plain; charset=utf-8"},
		{"GET", "/a/b/look.go", 404, "text/plain; charset=utf-8"},
		{"GET", "/a/b/explain", 404, "text/plain; charset=utf-8"},
		{"POST", "/a/b/", 405, "text/plain; charset=utf-8"},
		{"DELETE", "/a/b/json", 405, "text/plain; charset=utf-8"},
		{"GET", "/a/b/do", 405, "text/plain; charset=utf-8"},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.code || w.Header().Get("Content-Type") != c.kind {
			t.Errorf("%s %s: %d, %q, want %d, %q", c.method, c.path, w.Code, w.Header().Get("Content-Type"), c.code, c.kind)
		}
		if allow := w.Header().Get("Allow"); (allow != "") != (c.code == 405) || strings.HasSuffix(c.path, "/do") && allow != "POST" {
			t.Errorf("%s %s: %d, and allows %q", c.method, c.path, w.Code, allow)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s %s: policy %q", c.method, c.path, csp)
		}
		if strings.Contains(w.Body.String(), "://") {
			t.Errorf("%s names something elsewhere", c.path)
		}
	}
}

func TestMisuse(t *testing.T) {
	p := gates.New(nil)
	defer p.Close()
	var noRate *gate.Rate
	var noKeyed *gate.Keyed[int]
	for want, f := range map[string]func(){
		"gates: New: Every must not be negative, got -1s":                           func() { gates.New(&gates.Options{Every: -time.Second}) },
		"gates: New: Keep must not be negative, got -1s":                            func() { gates.New(&gates.Options{Keep: -time.Second}) },
		"gates: New: Keep must be at most 100000 times Every, got 27h46m41s and 1s": func() { gates.New(&gates.Options{Keep: 100_001 * time.Second}) },
		"gates: New: Keys must not be negative, got -1":                             func() { gates.New(&gates.Options{Keys: -1}) },
		"gates: Page.Gate: a gate must not be nil, got nil for gate 2":              func() { p.Gate(gate.NewConcurrency(1), nil) },
		"gates: Page.Gate: a gate must not be nil, got nil for gate 1":              func() { p.Gate(noRate) },
		"gates: Page.Group: g must not be nil, got nil":                             func() { p.Group(nil) },
		"gates: Page.Pipeline: there must be a stage at least, got none":            func() { p.Pipeline("x") },
		"gates: Page.Pipeline: a meter must not be nil, got nil for stage 1":        func() { p.Pipeline("x", nil) },
		"gates: Page.Policy: r must not be nil, got nil":                            func() { p.Policy("x", nil) },
		"gates: Keyed: p must not be nil, got nil":                                  func() { gates.Keyed(nil, noKeyed) },
		"gates: Keyed: k must not be nil, got nil":                                  func() { gates.Keyed(p, noKeyed) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
	gates.New(&gates.Options{Keep: 100_000 * time.Second}).Close()
	if d := read(t, p); len(d.Gates) != 0 {
		t.Errorf("after a panic the page has %v", d.Gates)
	}
}
