package retryhttp_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/internal/bubble"
	"github.com/escapement-go/escapement/pace"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

// A server refuses every 20th request, whatever the pace. 2,000 calls at 100 a second would take 21 s in all. They take
// little more: the gate finds out that slowing down does not help.
func TestEveryTwentiethIsRefused(t *testing.T) {
	for _, c := range []struct {
		fields string
		most   time.Duration
	}{
		{"", 30 * s},
	} {
		bubble.Real(t, func(b *bubble.B) {
			var requests atomic.Int64
			server := base(func(req *http.Request) (*http.Response, error) {
				time.Sleep(20 * ms)
				if requests.Add(1)%20 == 0 {
					return answered(req, 429, c.fields), nil
				}
				return answered(req, 200, ""), nil
			})
			client := &http.Client{Transport: &retryhttp.Transport{Base: server, Policy: &retry.Policy{
				Gate: gate.All(gate.NewAdaptive(pace.PerSecond(100), nil), gate.NewConcurrency(32)),
			}}}
			done := make(chan error)
			for range 2000 {
				go func() {
					resp, err := client.Get("http://far.test/")
					if err == nil && resp.StatusCode != 200 {
						err = fmt.Errorf("%s", resp.Status)
					}
					done <- err
				}()
			}
			for range 2000 {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
			if b.Now() > c.most {
				b.Errorf("%q: all calls took %v", c.fields, b.Now())
			}
		})
	}
}
