package clients

import (
	"context"
	"errors"
	"net/http"
	"time"

	vault "github.com/hashicorp/vault/api"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

func newVault(base http.RoundTripper, g gate.Gate) (*vault.Client, error) {
	config := vault.DefaultConfig() // config.ConfigureTLS wants an *http.Transport: before the next line
	config.HttpClient.Transport = &retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: g}, NoRetry: true}
	config.MaxRetries = 5 // its default is 2
	return vault.NewClient(config)
}

var vaultAPI = client{
	name: "vault/api",
	own: func(rt http.RoundTripper) (call, error) {
		config := vault.DefaultConfig()
		config.HttpClient.Transport = rt
		config.Timeout = time.Hour // of the whole call, which its 60 s would end at a random attempt
		c, err := vault.NewClient(config)
		return callVault(c), err
	},
	off: func(rt http.RoundTripper) (call, error) {
		config := vault.DefaultConfig()
		config.HttpClient.Transport = rt
		config.MaxRetries = 0
		config.Timeout = time.Hour
		c, err := vault.NewClient(config)
		return callVault(c), err
	},
	snippet: func(base http.RoundTripper, g gate.Gate) (call, error) {
		c, err := newVault(base, g)
		return callVault(c), err
	},
	good: `{"data": {"tick": "tock"}}`,
	body: map[int]string{
		429: `{"errors": ["request path \"secret/tick\": rate limit quota exceeded"]}`,
		503: `{"errors": ["Vault is sealed"]}`,
	},
	typed: func(err error, status int) bool {
		e, ok := errors.AsType[*vault.ResponseError](err)
		return ok && e.StatusCode == status && len(e.Errors) == 1
	},
}

func callVault(c *vault.Client) call {
	return func(ctx context.Context) error {
		_, err := c.Logical().ReadWithContext(ctx, "secret/tick")
		return err
	}
}
