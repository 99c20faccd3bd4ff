// Package gates shows what gates, groups, pipelines and retry policies do, live, on a page to look at. Mount it
// beside net/http/pprof and expvar:
//
//	page := gates.New(nil)
//	defer page.Close()
//	page.Gate(api)                // a gate; an All brings its members
//	gates.Keyed(page, tenants)    // the busiest keys
//	page.Pipeline("import", &fetching, &decoding, &writing)
//	page.Group(jobs)
//	page.Policy("api calls", policy)
//	http.Handle("/debug/gates/", page)
//
// The page is one HTML file with a style sheet and a script, which are in the program. It loads nothing from
// elsewhere, and works without a network beyond the program. It updates itself once a second.
//
// # What there is under the prefix
//
//	GET  /                the page
//	GET  json             the same as JSON, once
//	GET  events           the same as server-sent events, for the page
//	GET  explain?id=g1    what keeps the entries of a gate back, as text; see [gate.Explain]
//	POST do               hold, resume or change a gate: only with [Options.Authorize]
//
// # Access
//
// Names, keys and plans are for the eyes of operators. The page asks for no password, as pprof does not: mount it on
// an address that only operators reach, or behind a handler that asks for one. All that it may do to a gate is off
// unless [Options.Authorize] is set.
//
// # What it costs
//
// A [Page] reads the Stats of its gates once a second, whether 0 or 100 viewers look. It is read by one goroutine
// at a time, and encoded once for all viewers. Keys are read only while a viewer looks. Entries pay nothing.
package gates
