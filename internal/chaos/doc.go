// Package chaos attacks the library from its documentation alone, with random pipelines, retries
// and HTTP calls. Each is checked against what the docs of packages group, retry and retryhttp
// promise. It has only tests. For longer runs:
//
//	go test ./internal/chaos -rapid.checks=100000
package chaos
