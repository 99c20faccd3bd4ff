// Package model has reference models of the gates, written from their documentation alone,
// and random tests that drive the real gates against them. It has no code but tests.
//
// # Running it
//
// By default each test checks some ten to hundred cases, which takes a few seconds in all.
// ESCAPEMENT_MODEL is how long each test goes on with new cases instead:
//
//	ESCAPEMENT_MODEL=2s go test ./internal/model                   # in CI, about a minute
//	ESCAPEMENT_MODEL=10m go test -timeout 3h ./internal/model      # by hand
//
// A failure is shrunk by pgregory.net/rapid and printed as a list of calls with the instant
// of each. Its last lines repeat the run: -rapid.seed or -rapid.failfile.
//
// # How it works
//
// A script of calls is drawn first. It runs in a bubble of testing/synctest, one for each
// case, on the real clock or on a mock one, where nothing is late. After each call the
// bubble comes to rest, and what became of every entry is compared with the model.
//
// A leaf is the model of a plain gate: what there is room for, and from when on. The lane
// foretells the outcome of each entry of one queue exactly: the instant, the error and the
// wait in it. The graph checks composites that share members: each grant must have room at
// every member, and no waiter may be left behind without a reason that the documentation
// gives.
//
// Where the documentation does not pin an outcome, the models accept all that it allows.
package model
