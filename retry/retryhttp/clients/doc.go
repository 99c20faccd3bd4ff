// Package clients runs API clients that are in wide use over a [retryhttp.Transport], against
// a strict server, and counts the requests. README.md says what to set for each. A module of
// its own, so that their dependencies stay out of a user's.
//
// [retryhttp.Transport]: https://pkg.go.dev/github.com/escapement-go/escapement/retry/retryhttp#Transport
package clients
