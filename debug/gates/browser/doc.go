// Package browser has no code but tests. They look at the page of debug/gates in a real browser, without a head. It is a
// module of its own, so that users of the library do not get what drives the browser.
package browser
