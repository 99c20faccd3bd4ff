// Package bench measures what one operation costs, beside the peers, in one run. It has
// nothing to import: its benchmarks are run. How exact the limiters are is measured by the
// program in accuracy. README.md says how both are run and what they say.
package bench
