package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stripe/stripe-go/v86"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// What the clients read from the environment is none of the tests' business.
func TestMain(m *testing.M) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		for _, prefix := range []string{"AWS_", "OPENAI_", "VAULT_", "ELASTIC"} {
			if strings.HasPrefix(name, prefix) {
				os.Unsetenv(name)
			}
		}
	}
	stripe.DefaultLeveledLogger = &stripe.LeveledLogger{Level: stripe.LevelNull}
	os.Exit(m.Run())
}

// call makes one call of a client's API.
type call func(context.Context) error

// client is one of them, and how it is set up.
type client struct {
	name    string                                           // in the README's table
	own     func(http.RoundTripper) (call, error)            // as it comes, with the retries that it has
	off     func(http.RoundTripper) (call, error)            // without them; nil: it has none
	snippet func(http.RoundTripper, gate.Gate) (call, error) // as the README has it; nil: it is in there already
	good    string                                           // what its API says with a 200
	body    map[int]string                                   // and with the other statuses
	fields  map[string]string                                // and always
	typed   func(err error, status int) bool                 // err is the client's own for the status
}

var clients = []client{gitHub, slackGo, slackRetry, openAI, awsGet, awsPut, stripeGo, vaultAPI, elastic}

// setup says where the repeating is done. Its name is a column of the README's table.
type setup struct {
	name string
	make func(c client, base http.RoundTripper, g gate.Gate) (call, error) // nil call: there is none
}

var (
	alone     = setup{"by itself", func(c client, base http.RoundTripper, _ gate.Gate) (call, error) { return c.own(base) }}
	byDefault = setup{"`Transport{}`", func(c client, base http.RoundTripper, _ gate.Gate) (call, error) {
		return c.own(&retryhttp.Transport{Base: base})
	}}
	noRetry = setup{"`NoRetry`", func(c client, base http.RoundTripper, g gate.Gate) (call, error) {
		return c.own(&retryhttp.Transport{Base: base, NoRetry: true, Policy: &retry.Policy{Gate: g}})
	}}
	ownOff = setup{"its own off", func(c client, base http.RoundTripper, g gate.Gate) (call, error) {
		off := c.off
		if off == nil {
			off = c.own
		}
		return off(&retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: g}})
	}}
	asBelow = setup{"as below", func(c client, base http.RoundTripper, g gate.Gate) (call, error) {
		if c.snippet == nil {
			return nil, nil
		}
		return c.snippet(base, g)
	}}
	setups = []setup{alone, byDefault, noRetry, ownOff, asBelow}
)

// gated reports whether the requests enter the gate.
func (s setup) gated() bool { return s.name != alone.name && s.name != byDefault.name }

// statuses are those that the far side answers with, for ever. 0 is a reset of the connection.
var statuses = []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, 0}

func (c client) answer(status int) answer {
	a := answer{status: status, fields: map[string]string{}, body: c.body[status]}
	maps.Copy(a.fields, c.fields)
	if status == http.StatusTooManyRequests {
		a.fields["Retry-After"] = fmt.Sprint(hint.Seconds())
	}
	return a
}

// count is what arrived for one call, and how much of that too early.
type count struct{ all, early int }

// Each client, in each setup, sends as many requests as the README says. Behind a gate, each of
// them has entered it, and none comes too early. The client's own errors come out of all of it.
func TestRequests(t *testing.T) {
	measured := counts{}
	for _, c := range clients {
		for _, s := range setups {
			for _, status := range statuses {
				t.Run(fmt.Sprintf("%s/%s/%d", c.name, s.name, status), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n, ok := permanent(t, c, s, status)
						if ok {
							measured.add(c.name, s.name, status, n)
						}
					})
				})
			}
		}
	}
	measured.compare(t)
}

// permanent makes one call while the far side answers with the status and nothing else.
func permanent(t *testing.T, c client, s setup, status int) (count, bool) {
	f, base := listen(t, c.answer(status))
	g := gate.NewRate(pace.PerSecond(10), nil)
	call, err := s.make(c, base, g)
	if err != nil {
		t.Fatal(err)
	}
	if call == nil {
		return count{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // far beyond what any client needs
	defer cancel()
	err = call(ctx)
	n := f.requests()
	switch {
	case err == nil:
		t.Error("no error")
	case status == 0:
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%T %v, want a reset", err, err)
		}
	case !c.typed(err, status):
		t.Errorf("%T %v, want the client's own for %d", err, err, status)
	}
	if !s.gated() {
		return n, true
	}
	st := g.Stats()
	if int(st.Granted) != n.all {
		t.Errorf("%d requests arrived, %d entered the gate", n.all, st.Granted)
	}
	if n.early > 0 {
		t.Errorf("%d of %d requests came before the hint was over", n.early, n.all)
	}
	if held := f.left(); st.HeldFor != held {
		t.Errorf("the gate is held for %v, the far side wants %v", st.HeldFor, held)
	}
	return n, true
}

// Each of the README's snippets gets through after the far side has throttled twice, with no
// request too many. The hint given to one holds all that goes through the gate.
func TestRecovers(t *testing.T) {
	for _, c := range clients {
		if c.snippet == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good := c.answer(http.StatusOK)
				good.body = c.good
				f, base := listen(t, c.answer(429), c.answer(429), good)
				g := gate.NewRate(pace.PerSecond(10), nil)
				call, err := c.snippet(base, g)
				if err != nil {
					t.Fatal(err)
				}
				other := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: g}}}
				done := make(chan error, 1)
				go func() {
					time.Sleep(time.Second)
					resp, err := other.Get("http://far.test/")
					if err == nil {
						err = resp.Body.Close()
					}
					done <- err
				}()
				if err := errors.Join(call(context.Background()), <-done); err != nil {
					t.Error(err)
				}
				if n := f.requests(); n != (count{4, 0}) || g.Stats().Granted != 4 {
					t.Errorf("%+v requests and %d entries, want 4 and none early", n, g.Stats().Granted)
				}
			})
		})
	}
}
