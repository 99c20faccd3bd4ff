// Package model has reference models of the gates, written from their documentation alone. Random
// tests drive the real gates against them. It has no code but tests.
//
// # Running it
//
// By default each test checks some ten to hundred cases, which takes a few seconds in all. With
// ESCAPEMENT_MODEL each test goes on with new cases for that long instead:
//
//	ESCAPEMENT_MODEL=2s go test ./internal/model                   # about a minute
//	ESCAPEMENT_MODEL=10m go test -timeout 3h ./internal/model      # by hand
//
// With -v each test says how many sequences of how many calls it has checked.
//
// pgregory.net/rapid shrinks a failure and prints it as a list of calls with the instant of each.
// Its last lines repeat the run: -rapid.seed or -rapid.failfile.
//
// # How it works
//
// A script of calls is drawn first. It runs in a bubble of testing/synctest, one for each case. The
// clock is the real one or a mock one; in a bubble nothing is late on either. After each call the
// bubble comes to rest, and the outcome of every entry is compared with the model.
//
// A leaf is the model of a plain gate: what there is room for, and from when on. The lane predicts
// the outcome of each entry of one queue exactly: the instant, the error and the wait. The graph
// checks composites that share members. Each grant must have room at every member. No waiter may be
// left behind without a reason that the documentation gives.
//
// The mesh is the graph with a cost for each gate: composites with views, gates named several times, and
// keys, entered by EnterEach and settled before or after they are left.
//
// The ledger has what callers have done and for how long they have waited. What gates tell of themselves is compared with
// it: Stats, events, open passes, and what Explain foresees.
//
// Where the documentation does not pin an outcome, the models accept all that it allows.
package model
