package clients

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v9"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

func newElasticsearch(base http.RoundTripper, g gate.Gate) (*elasticsearch.Client, error) {
	transport := &retryhttp.Transport{Base: base, Policy: &retry.Policy{Gate: g}, NoRetry: true}
	return elasticsearch.New(
		elasticsearch.WithRetry(3, 429, 502, 503, 504), // its default is 3, but never for a 429
		elasticsearch.WithTransportOptions(elastictransport.WithTransport(transport),
			elastictransport.WithRetryBackoff(func(int) time.Duration { return time.Second }))) // its default is none
}

var elastic = client{
	name: "go-elasticsearch",
	own: func(rt http.RoundTripper) (call, error) {
		c, err := elasticsearch.New(elasticsearch.WithTransportOptions(elastictransport.WithTransport(rt)))
		return callElasticsearch(c), err
	},
	off: func(rt http.RoundTripper) (call, error) {
		c, err := elasticsearch.New(elasticsearch.WithTransportOptions(elastictransport.WithTransport(rt), elastictransport.WithDisableRetry()))
		return callElasticsearch(c), err
	},
	snippet: func(base http.RoundTripper, g gate.Gate) (call, error) {
		c, err := newElasticsearch(base, g)
		return callElasticsearch(c), err
	},
	fields: map[string]string{"X-Elastic-Product": "Elasticsearch"},
	good:   `{"hits": {"hits": []}}`,
	body: map[int]string{
		429: `{"error": {"type": "es_rejected_execution_exception", "reason": "queue is full"}, "status": 429}`,
		503: `{"error": {"type": "cluster_block_exception", "reason": "no master"}, "status": 503}`,
	},
	typed: func(err error, status int) bool {
		return err.Error() == fmt.Sprintf("[%d %s]", status, http.StatusText(status))
	},
}

// What Search returns is no error but a response that says so.
func callElasticsearch(c *elasticsearch.Client) call {
	return func(ctx context.Context) error {
		res, err := c.Search(c.Search.WithContext(ctx), c.Search.WithBody(strings.NewReader(`{"query": {"match_all": {}}}`)))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.IsError() {
			return fmt.Errorf("[%s]", res.Status())
		}
		return nil
	}
}

// By itself it repeats without a delay.
func TestElasticsearchRepeatsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, base := listen(t, elastic.answer(503))
		call, err := elastic.own(base)
		if err != nil {
			t.Fatal(err)
		}
		if err := call(context.Background()); !elastic.typed(err, 503) {
			t.Fatal(err)
		}
		if want := []time.Duration{0, 0, 0, 0}; !slices.Equal(f.arrived, want) {
			t.Errorf("requests at %v, want %v", f.arrived, want)
		}
	})
}
