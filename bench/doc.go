// Package bench measures Escapement beside its peers, in one run. It has nothing to
// import; see README.md for how it is run and what it says.
package bench
