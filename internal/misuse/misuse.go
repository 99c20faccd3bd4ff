// Package misuse panics on rates and options that packages pace and gate both refuse.
package misuse

import "fmt"

// Rate panics on a rate that is not valid. name is the function that was called, such as
// "gate: Rate.SetRate".
func Rate(name string, valid bool) {
	if !valid {
		panic(name + ": the rate must be valid, got the zero Rate")
	}
}

// Options panics as Rate does, and on a Burst or a Precision that breaks a rule of pace.Options.
func Options(name string, valid bool, burst, precision int) {
	Rate(name, valid)
	if burst < 0 {
		panic(fmt.Sprintf("%s: Burst must not be negative, got %d", name, burst))
	}
	if precision < 0 || precision > 2 {
		panic(fmt.Sprintf("%s: Precision must be PrecisionAuto, PrecisionPrecise or PrecisionCoalesced, got %d", name, precision))
	}
}
