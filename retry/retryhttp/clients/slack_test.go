package clients

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/slack-go/slack"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

func newSlack(token string, base http.RoundTripper, g gate.Gate) *slack.Client {
	policy := &retry.Policy{Gate: g, MaxRetryAfter: time.Minute}
	return slack.New(token, slack.OptionHTTPClient(&http.Client{
		Transport: &retryhttp.Transport{Base: base, Policy: policy},
	})) // and no OptionRetry; or else with NoRetry, and OptionRetry after OptionHTTPClient, which it wraps
}

var slackGo = client{
	name: "slack-go",
	own: func(rt http.RoundTripper) (call, error) {
		return callSlack(slack.New("xoxb-0", slack.OptionHTTPClient(&http.Client{Transport: rt}))), nil
	},
	snippet: func(base http.RoundTripper, g gate.Gate) (call, error) {
		return callSlack(newSlack("xoxb-0", base, g)), nil
	},
	good:  `{"ok": true, "channel": "C0", "ts": "1.0"}`,
	typed: typedSlack,
}

var slackRetry = client{
	name: "slack-go, `OptionRetry(3)`",
	own: func(rt http.RoundTripper) (call, error) {
		return callSlack(slack.New("xoxb-0", slack.OptionHTTPClient(&http.Client{Transport: rt}), slack.OptionRetry(3))), nil
	},
	off:   slackGo.own,
	typed: typedSlack,
}

func typedSlack(err error, status int) bool {
	if status == http.StatusTooManyRequests {
		e, ok := errors.AsType[*slack.RateLimitedError](err)
		return ok && e.RetryAfter == hint
	}
	e, ok := errors.AsType[slack.StatusCodeError](err)
	return ok && e.Code == status
}

func callSlack(c *slack.Client) call {
	return func(ctx context.Context) error {
		_, _, err := c.PostMessageContext(ctx, "C0", slack.MsgOptionText("tick", false))
		return err
	}
}
