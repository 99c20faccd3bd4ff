// Package pace answers the question "when?": exact rates, and a token channel to select
// on.
package pace
