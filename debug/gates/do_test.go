package gates_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/debug/gates"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
)

// post sends a change. The headers are pairs.
func post(p *gates.Page, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "https://service.test/debug/gates/do", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func granted(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer s3cret" }

// Without Authorize nothing can be changed, with it only what it grants, and never from another site.
func TestChangesMustBeAuthorized(t *testing.T) {
	const hold = `{"id":"g2","do":"hold","for":"1m"}`
	for name, c := range map[string]struct {
		authorize func(*http.Request) bool
		headers   []string
		code      int
	}{
		"no Authorize":         {nil, []string{"Authorization", "Bearer s3cret"}, 403},
		"no credentials":       {granted, nil, 403},
		"wrong credentials":    {granted, []string{"Authorization", "Bearer x"}, 403},
		"right credentials":    {granted, []string{"Authorization", "Bearer s3cret"}, 204},
		"the page itself":      {granted, []string{"Authorization", "Bearer s3cret", "Sec-Fetch-Site", "same-origin"}, 204},
		"by hand":              {granted, []string{"Authorization", "Bearer s3cret", "Sec-Fetch-Site", "none"}, 204},
		"another site":         {granted, []string{"Authorization", "Bearer s3cret", "Sec-Fetch-Site", "cross-site"}, 403},
		"a sibling":            {granted, []string{"Authorization", "Bearer s3cret", "Sec-Fetch-Site", "same-site"}, 403},
		"its own origin":       {granted, []string{"Authorization", "Bearer s3cret", "Origin", "https://service.test"}, 204},
		"another origin":       {granted, []string{"Authorization", "Bearer s3cret", "Origin", "https://evil.test"}, 403},
		"no origin":            {granted, []string{"Authorization", "Bearer s3cret", "Origin", "null"}, 403},
		"a form":               {granted, []string{"Authorization", "Bearer s3cret", "Content-Type", "application/x-www-form-urlencoded"}, 415},
		"a form of plain text": {granted, []string{"Authorization", "Bearer s3cret", "Content-Type", "text/plain"}, 415},
		"no type":              {granted, []string{"Authorization", "Bearer s3cret", "Content-Type", ""}, 415},
		"a bad type":           {granted, []string{"Authorization", "Bearer s3cret", "Content-Type", "application/json; ="}, 415},
		"a type with charset":  {granted, []string{"Authorization", "Bearer s3cret", "Content-Type", "application/json; charset=utf-8"}, 204},
	} {
		p := gates.New(&gates.Options{Authorize: c.authorize})
		g := gate.NewRate(pace.PerSecond(1), nil)
		p.Gate(g)
		w := post(p, hold, c.headers...)
		if w.Code != c.code {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.code)
		}
		if allow := w.Header().Get("Allow"); allow != "" {
			t.Errorf("%s: it allows %q", name, allow)
		}
		if held := g.Stats().HeldFor > 0; held != (c.code == 204) {
			t.Errorf("%s: held %v", name, held)
		}
		p.Close()
	}
}

// Only a page whose viewer may change gates has what is needed for that.
func TestPageSaysWhetherChangesAreAllowed(t *testing.T) {
	for _, c := range []struct {
		authorize func(*http.Request) bool
		want      string
	}{
		{nil, `data-may="no"`},
		{func(*http.Request) bool { return false }, `data-may="no"`},
		{func(*http.Request) bool { return true }, `data-may="yes"`},
	} {
		p := gates.New(&gates.Options{Authorize: c.authorize})
		if body := get(p, "").Body.String(); !strings.Contains(body, c.want) {
			t.Errorf("the page has no %s", c.want)
		}
		p.Close()
	}
}

func TestChanges(t *testing.T) {
	bubble.Both(t, func(b *bubble.B) {
		p := gates.New(&gates.Options{Clock: b.Clock(), Authorize: func(*http.Request) bool { return true }})
		defer p.Close()
		rate := gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()})
		window := gate.NewWindow(5, time.Second, &gate.WindowOptions{Clock: b.Clock()})
		slots := gate.NewConcurrency(4)
		p.Gate(rate, window, slots, elsewhere{}) // g2 to g5
		tenants := gate.NewKeyed(func(string) gate.Gate { return gate.NewRate(pace.PerSecond(1), &gate.RateOptions{Clock: b.Clock()}) },
			&gate.KeyedOptions{Clock: b.Clock()})
		tenants.TryEnter("ann", 1)
		gates.Keyed(p, tenants)
		ann := read(b, p).Keyed[0].Top[0].ID

		ctx := b.Context()
		s, _ := watch(ctx, p, nil)
		b.Settle()
		s.take()
		state := func() string {
			n, span := window.Limit()
			return fmt.Sprintf("%v, %d in %v, %d slots, held %v %v %v", rate.Rate(), n, span, slots.Limit(),
				rate.Stats().HeldFor, window.Stats().HeldFor, tenants.For("ann").Stats().HeldFor)
		}
		before := state()
		for _, c := range []struct {
			body string
			code int
			want string // "": as before
		}{
			{`{"id":"g2","do":"hold","for":"1m30s"}`, 204, "1/s, 5 in 1s, 4 slots, held 1m30s 0s 0s"},
			{`{"id":"g2","do":"resume"}`, 204, "1/s, 5 in 1s, 4 slots, held 0s 0s 0s"},
			{`{"id":"g2","do":"rate","rate":"5/10s"}`, 204, "5/10s, 5 in 1s, 4 slots, held 0s 0s 0s"},
			{`{"id":"g3","do":"rate","rate":"9/1m0s"}`, 204, "5/10s, 9 in 1m0s, 4 slots, held 0s 0s 0s"},
			{`{"id":"g4","do":"limit","limit":1}`, 204, "5/10s, 9 in 1m0s, 1 slots, held 0s 0s 0s"},
			{`{"id":"g4","do":"limit","limit":7}`, 204, "5/10s, 9 in 1m0s, 7 slots, held 0s 0s 0s"},
			{`{"id":"g3","do":"hold","for":"24h"}`, 204, "5/10s, 9 in 1m0s, 7 slots, held 0s 24h0m0s 0s"},
			{`{"id":"` + ann + `","do":"hold","for":"5s"}`, 204, "5/10s, 9 in 1m0s, 7 slots, held 0s 24h0m0s 5s"},
			{`{"id":"g3","do":"hold","for":"24h0m1s"}`, 400, ""},
			{`{"id":"g3","do":"hold","for":"0s"}`, 400, ""},
			{`{"id":"g3","do":"hold","for":"-5s"}`, 400, ""},
			{`{"id":"g3","do":"hold","for":"soon"}`, 400, ""},
			{`{"id":"g3","do":"hold"}`, 400, ""},
			{`{"id":"g3","do":"rate","rate":"unlimited"}`, 400, ""},
			{`{"id":"g3","do":"rate","rate":"0/s"}`, 400, ""},
			{`{"id":"g4","do":"limit","limit":0}`, 400, ""},
			{`{"id":"g4","do":"limit","limit":1073741825}`, 400, ""},
			{`{"id":"g4","do":"limit","limit":99999999999999999999}`, 400, ""},
			{`{"id":"g4","do":"hold","for":"1s"}`, 409, ""},
			{`{"id":"g4","do":"resume"}`, 409, ""},
			{`{"id":"g4","do":"rate","rate":"1/s"}`, 409, ""},
			{`{"id":"g2","do":"limit","limit":1}`, 409, ""},
			{`{"id":"g5","do":"hold","for":"1s"}`, 409, ""},
			{`{"id":"g99","do":"hold","for":"1s"}`, 404, ""},
			{`{"do":"hold","for":"1s"}`, 404, ""},
			{`{"id":"g2","do":"explode"}`, 400, ""},
			{`{"id":"g2","do":"resume","and":"more"}`, 400, ""},
			{`{"id":"g2","do":"resume"}{"id":"g2","do":"resume"}`, 400, ""},
			{`{"id":"g2","do":"hold","for":"1s"} x`, 400, ""},
			{`{"id":"g2","do":"resume"`, 400, ""},
			{`{"id":"` + strings.Repeat("g", 5000) + `"}`, 400, ""},
			{``, 400, ""},
			{`null`, 404, ""},
			{`[]`, 400, ""},
		} {
			w := post(p, c.body)
			want := c.want
			if want == "" {
				want = before
			}
			if got := state(); w.Code != c.code || got != want {
				b.Errorf("%.80s: %d %s, %s; want %d, %s", c.body, w.Code, w.Body, got, c.code, want)
			}
			before = state()
			b.Settle()
			if event := s.take(); strings.Contains(event, "event: look") != (c.code == 204) {
				b.Errorf("%.80s: viewers got %q", c.body, event)
			}
		}
		// A change is no tick.
		late, _ := watch(ctx, p, nil)
		b.Settle()
		if event := late.take(); !strings.Contains(event, `"g2":{"n":0,`) {
			b.Errorf("after changes, but no tick, the history is %s", event)
		}
		p.Close()
		b.Settle()
	})
}

// No body makes the page panic, or leaves a gate that does not work.
func FuzzDo(f *testing.F) {
	for _, s := range []string{
		`{"id":"g2","do":"hold","for":"1m"}`, `{"id":"g2","do":"rate","rate":"9223372036854775807/1ns"}`, `{"id":"g3","do":"rate","rate":"1/290y"}`,
		`{"id":"g4","do":"limit","limit":-9223372036854775808}`, `{"id":"g2","do":"resume"}`, `{"id":"\u0000"}`, `[[[[`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		p := gates.New(&gates.Options{Authorize: func(*http.Request) bool { return true }})
		defer p.Close()
		p.Gate(gate.NewRate(pace.PerSecond(1), nil), gate.NewWindow(1, time.Second, nil), gate.NewConcurrency(1))
		switch w := post(p, body); w.Code {
		case 204, 400, 404, 409:
		default:
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if d := read(t, p); len(d.Gates) != 3 {
			t.Errorf("%d gates", len(d.Gates))
		}
	})
}
