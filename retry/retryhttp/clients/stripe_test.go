package clients

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stripe/stripe-go/v86"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

func newStripe(key string, base http.RoundTripper, g gate.Gate) *stripe.Client {
	transport := &retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: g, MaxRetryAfter: time.Minute}}
	return stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		HTTPClient:        &http.Client{Transport: transport},
		MaxNetworkRetries: stripe.Int64(0), // its default is 2, and never for a 429
	})))
}

var stripeGo = client{
	name: "stripe-go",
	own: func(rt http.RoundTripper) (call, error) {
		return callStripe(stripe.NewClient("sk_test_0", stripe.WithBackends(stripe.NewBackends(&http.Client{Transport: rt})))), nil
	},
	off: func(rt http.RoundTripper) (call, error) {
		backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{HTTPClient: &http.Client{Transport: rt}, MaxNetworkRetries: stripe.Int64(0)})
		return callStripe(stripe.NewClient("sk_test_0", stripe.WithBackends(backends))), nil
	},
	snippet: func(base http.RoundTripper, g gate.Gate) (call, error) {
		return callStripe(newStripe("sk_test_0", base, g)), nil
	},
	good: `{"id": "cus_0", "object": "customer"}`,
	body: map[int]string{
		429: `{"error": {"type": "invalid_request_error", "code": "rate_limit", "message": "slow down"}}`,
		503: `{"error": {"type": "api_error", "message": "unavailable"}}`,
	},
	typed: func(err error, status int) bool {
		e, ok := errors.AsType[*stripe.Error](err)
		return ok && e.HTTPStatusCode == status && (status != 429 || e.Code == stripe.ErrorCodeRateLimit)
	},
}

func callStripe(c *stripe.Client) call {
	return func(ctx context.Context) error {
		_, err := c.V1Customers.Create(ctx, &stripe.CustomerCreateParams{Name: stripe.String("tick")})
		return err
	}
}
