package clients

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

func newS3(config aws.Config, base http.RoundTripper, g gate.Gate) *s3.Client {
	transport := &retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: g}, NoRetry: true, Classify: classifyS3}
	return s3.NewFromConfig(config, func(o *s3.Options) {
		o.HTTPClient = &http.Client{Transport: transport}
		o.RetryMaxAttempts = 5 // its default is 3
	})
}

// S3 says that there is too much by a 503 without a Retry-After.
func classifyS3(resp *http.Response, err error) retry.Verdict {
	if resp != nil && resp.StatusCode == http.StatusServiceUnavailable {
		return retry.VerdictThrottle
	}
	return retryhttp.Classify(resp, err)
}

// awsConfig is one without files, environment and network.
func awsConfig(rt http.RoundTripper) aws.Config {
	return aws.Config{
		Region:     "eu-central-1",
		HTTPClient: &http.Client{Transport: rt},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret"}, nil
		}),
	}
}

var (
	awsGet = awsClient("aws-sdk-go-v2, GET", callGet)
	awsPut = awsClient("aws-sdk-go-v2, PUT", callPut)
)

func awsClient(name string, use func(*s3.Client) call) client {
	return client{
		name: name,
		own: func(rt http.RoundTripper) (call, error) {
			return use(s3.NewFromConfig(awsConfig(rt))), nil
		},
		off: func(rt http.RoundTripper) (call, error) {
			return use(s3.NewFromConfig(awsConfig(rt), func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })), nil
		},
		snippet: func(base http.RoundTripper, g gate.Gate) (call, error) {
			return use(newS3(awsConfig(nil), base, g)), nil
		},
		fields: map[string]string{"Content-Type": "application/xml"},
		body: map[int]string{
			429: `<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>`,
			503: `<Error><Code>ServiceUnavailable</Code><Message>Come back.</Message></Error>`,
		},
		typed: func(err error, status int) bool {
			e, ok := errors.AsType[smithy.APIError](err)
			return ok && e.ErrorCode() == map[int]string{429: "SlowDown", 503: "ServiceUnavailable"}[status]
		},
	}
}

func callGet(c *s3.Client) call {
	return func(ctx context.Context) error {
		_, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("ticks"), Key: aws.String("tick")})
		return err
	}
}

func callPut(c *s3.Client) call {
	return func(ctx context.Context) error {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("ticks"), Key: aws.String("tick"), Body: strings.NewReader("tick")})
		return err
	}
}

// A 503 of S3 slows an Adaptive gate down, though nothing but its status says so.
func TestS3SlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, base := listen(t, answer{status: 503, body: `<Error><Code>SlowDown</Code></Error>`}, answer{status: 200})
		g := gate.NewAdaptive(pace.PerSecond(1), &gate.AdaptiveOptions{Backoff: 20})
		call, err := awsGet.snippet(base, g)
		if err != nil {
			t.Fatal(err)
		}
		if err := call(context.Background()); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{0, 20 * time.Second}; !slices.Equal(f.arrived, want) {
			t.Errorf("requests at %v, want %v", f.arrived, want)
		}
	})
}
