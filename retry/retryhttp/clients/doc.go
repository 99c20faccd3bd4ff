// Package clients runs widely used API clients over a [retryhttp.Transport] against a strict
// server, and counts the requests. README.md says what to set for each, for example:
//
//	client, err := github.NewClient(github.WithTransport(&retryhttp.Transport{
//		Policy: &retry.Policy{Gate: g, MaxRetryAfter: time.Minute},
//	}))
//
// It is a module of its own, so that the clients are not dependencies of a user's program.
//
// [retryhttp.Transport]:
// https://pkg.go.dev/github.com/escapement-go/escapement/retry/retryhttp#Transport
package clients
