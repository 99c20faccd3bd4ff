package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

func newGitHub(base http.RoundTripper, g gate.Gate) (*github.Client, error) {
	return github.NewClient(github.WithTransport(&retryhttp.Transport{
		Base: base, Policy: &retry.Policy{Gate: g, MaxRetryAfter: time.Minute},
		XRateLimit: retryhttp.XRateLimitUnixTime, Classify: classifyGitHub,
	}))
}

// GitHub also refuses with a 403, and then says when to come back, or that nothing remains.
func classifyGitHub(resp *http.Response, err error) retry.Verdict {
	if resp != nil && resp.StatusCode == http.StatusForbidden &&
		(resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-RateLimit-Remaining") == "0") {
		return retry.VerdictThrottle
	}
	return retryhttp.Classify(resp, err)
}

const secondary = `{"message": "You have exceeded a secondary rate limit.", "documentation_url": "https://docs.github.com/rest/overview/rate-limits#about-secondary-rate-limits"}`

var gitHub = client{
	name: "go-github",
	own: func(rt http.RoundTripper) (call, error) {
		c, err := github.NewClient(github.WithTransport(rt))
		return callGitHub(c), err
	},
	snippet: func(base http.RoundTripper, g gate.Gate) (call, error) {
		c, err := newGitHub(base, g)
		return callGitHub(c), err
	},
	good: `{"full_name": "escapement-go/escapement"}`,
	body: map[int]string{429: secondary, 503: `{"message": "unavailable"}`},
	typed: func(err error, status int) bool {
		if status == http.StatusTooManyRequests {
			e, ok := errors.AsType[*github.AbuseRateLimitError](err)
			return ok && e.RetryAfter != nil && *e.RetryAfter == hint
		}
		e, ok := errors.AsType[*github.ErrorResponse](err)
		return ok && e.Response.StatusCode == status
	},
}

func callGitHub(c *github.Client) call {
	return func(ctx context.Context) error {
		_, _, err := c.Repositories.Get(ctx, "escapement-go", "escapement")
		return err
	}
}

// Both of GitHub's limits are told by a 403 as well. They hold the gate until the instant that it
// names: the secondary one by a Retry-After, the primary one by what X-RateLimit-Reset counts.
func TestGitHubForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := fmt.Sprint(time.Now().Add(3 * hint).Unix())
		f, base := listen(t,
			answer{status: 403, body: secondary, fields: map[string]string{"Retry-After": "7"}},
			answer{status: 403, body: `{"message": "API rate limit exceeded"}`, fields: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}},
			answer{status: 200, body: gitHub.good})
		g := gate.NewRate(pace.PerSecond(10), nil)
		call, err := gitHub.snippet(base, g)
		if err != nil {
			t.Fatal(err)
		}
		if err := call(context.Background()); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{0, hint, 3 * hint}; !slices.Equal(f.arrived, want) {
			t.Errorf("requests at %v, want %v", f.arrived, want)
		}
	})
}

// After a rate limit that came out of a call, go-github itself refuses the next ones until the hint
// is over: they reach neither the gate nor the far side.
func TestGitHubRefusesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, base := listen(t, gitHub.answer(429), answer{status: 200, body: gitHub.good})
		call, err := gitHub.own(base)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := call(context.Background()); !gitHub.typed(err, 429) || f.requests().all != 1 {
				t.Fatalf("%v after %d requests, want one, and the rate limit", err, f.requests().all)
			}
		}
		time.Sleep(hint)
		if err := call(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}
