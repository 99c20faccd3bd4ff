package clients

import (
	"context"
	"errors"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

func newOpenAI(key string, base http.RoundTripper, g gate.Gate) openai.Client {
	transport := &retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: g}, NoRetry: true}
	return openai.NewClient(
		option.WithAPIKey(key),
		option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithMaxRetries(5)) // its default is 2
}

var openAI = client{
	name: "openai-go",
	own: func(rt http.RoundTripper) (call, error) {
		return callOpenAI(openai.NewClient(option.WithAPIKey("sk-0"), option.WithHTTPClient(&http.Client{Transport: rt}))), nil
	},
	off: func(rt http.RoundTripper) (call, error) {
		return callOpenAI(openai.NewClient(option.WithAPIKey("sk-0"), option.WithHTTPClient(&http.Client{Transport: rt}), option.WithMaxRetries(0))), nil
	},
	snippet: func(base http.RoundTripper, g gate.Gate) (call, error) {
		return callOpenAI(newOpenAI("sk-0", base, g)), nil
	},
	good: `{"choices": []}`,
	body: map[int]string{
		429: `{"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded", "param": null}}`,
		503: `{"error": {"message": "overloaded", "type": "server_error", "code": null, "param": null}}`,
	},
	typed: func(err error, status int) bool {
		e, ok := errors.AsType[*openai.Error](err)
		return ok && e.StatusCode == status && (status != 429 || e.Code == "rate_limit_exceeded")
	},
}

func callOpenAI(c openai.Client) call {
	return func(ctx context.Context) error {
		_, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model:    "gpt-5",
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("tick")},
		})
		return err
	}
}
