package group

import (
	"fmt"
	"reflect"

	"github.com/escapement-go/escapement/gate"
)

// A caller's mistake panics at once, in the name of the function that was called. If a worker found
// it later, the panic would not show where it came from.

// checkArguments checks the arguments that all stages with a function have.
func checkArguments[T any](name string, g *Group, in <-chan T, noFunc bool) {
	checkGroup(name, g)
	checkInput(name, in)
	checkFunc(name, noFunc)
}

func checkGroup(name string, g *Group) { check(name, "g", g == nil) }

// checkInput panics on a nil channel, to which nothing can ever be sent.
func checkInput[T any](name string, in <-chan T) { check(name, "in", in == nil) }

func checkFunc(name string, isNil bool) { check(name, "f", isNil) }

func checkSeq(name string, isNil bool) { check(name, "seq", isNil) }

func check(name, argument string, isNil bool) {
	if isNil {
		panicOnNil(name, argument)
	}
}

// panicOnNil is apart from check so that the compiler can inline check.
func panicOnNil(name, argument string) {
	panic(fmt.Sprintf("group: %s: %s must not be nil", name, argument))
}

// checkGate panics on a nil pointer of a gate's type. A nil Gate is fine, and means none.
func checkGate(what string, g gate.Gate) {
	if v := reflect.ValueOf(g); v.Kind() == reflect.Pointer && v.IsNil() {
		panic(fmt.Sprintf("group: %s must not be a nil %T", what, g))
	}
}
