// LLM asks 1,000 questions of an API that allows 500 requests and 90,000 tokens a minute, 40 requests at once.
// What an answer costs is known when it ends. A minute takes a second here: "go run ./examples/llm [-http :6060]".
//
// Three things together make sure that no call is refused. A call is charged the most that it can cost: its
// prompt, and MaxTokens, which bounds the answer. It is settled as soon as its usage is known, and the rest
// comes back. And it counts until a span after its answer: the API counts the last token just before that.
//
// The price: while a call is under way, it takes what it was charged, beside a whole span of what it cost. With
// answers of a second and charges of twice the cost, that is 3 % of a minute's limit. So bound answers closely.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/escapement-go/escapement/examples/internal/gatepage"
	"github.com/escapement-go/escapement/examples/strictapi"
	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
	"github.com/escapement-go/escapement/retry"
	"github.com/escapement-go/escapement/retry/retryhttp"
)

func newLimit(span time.Duration) gate.Gate {
	until := &gate.WindowOptions{UntilAnswer: true}
	return gate.Named("questions", gate.All(
		gate.Each(gate.Named("requests", gate.NewWindow(500, span, until))), // a call counts 1 here, whatever it costs
		gate.Named("tokens", gate.NewWindow(90_000, span, until)),
		gate.Each(gate.Named("slots", gate.NewConcurrency(40))),
	))
}

func newClient(limit gate.Gate) *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{
		Policy: &retry.Policy{Gate: limit, MaxRetryAfter: time.Minute},
		Cost:   most,
	}}
}

// most returns the tokens that a request costs at most.
func most(req *http.Request) []int {
	var q strictapi.Question
	if body, err := req.GetBody(); err == nil {
		_ = json.NewDecoder(body).Decode(&q) // it was encoded by ask
	}
	return []int{q.Tokens() + q.MaxTokens}
}

// ask asks a question, and settles what it has cost.
func ask(ctx context.Context, client *http.Client, url string, q strictapi.Question) error {
	body, _ := json.Marshal(q) // has no error
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	err = errors.New(resp.Status + ", and no usage")
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var e strictapi.Event
		if json.Unmarshal(bytes.TrimPrefix(lines.Bytes(), []byte("data: ")), &e) == nil && e.Usage != nil {
			pass, _ := gate.PassOf(resp.Request.Context())
			pass.Settle(e.Usage.Total()) // all else that was charged comes back
			err = nil
		}
	}
	return err
}

// askAll asks n questions, for answers of log-normal sizes.
func askAll(ctx context.Context, client *http.Client, url string, n, median int) error {
	g, ctx := group.WithContext(ctx)
	sizes := rand.New(rand.NewPCG(1, 2))
	for range n {
		about := int(float64(median) * math.Exp(sizes.NormFloat64()/2))
		q := strictapi.Question{Prompt: fmt.Sprintf("Tell me %d tokens.", about), MaxTokens: 2 * about}
		g.Go(func() error { return ask(ctx, client, url, q) })
	}
	return g.Wait()
}

func main() {
	limit := newLimit(time.Second)
	defer gatepage.Flag("llm", limit)() // -http
	api := strictapi.NewLLM(strictapi.DemoLLM(time.Second))
	server := httptest.NewServer(api)
	defer server.Close()
	if err := askAll(context.Background(), newClient(limit), server.URL, 1000, 250); err != nil {
		log.Fatal(err, "; ", api.Report())
	}
	fmt.Println(api.Report())
}
