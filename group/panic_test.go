package group_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

// crashEnv names the program that the test binary is to be instead of a test.
const crashEnv = "ESCAPEMENT_GROUP_CRASH"

func jobThatPanics() error { panic("a cog is missing") }

// crashes are programs that look complete if Wait returns.
var crashes = map[string]func(g *group.Group){
	"Go":    func(g *group.Group) { g.Go(jobThatPanics) },
	"TryGo": func(g *group.Group) { g.TryGo(jobThatPanics) },
	"gate": func(g *group.Group) {
		g.SetGate(&fakeGate{onEnd: func() { fmt.Fprintln(os.Stderr, "left the gate") }})
		g.Go(jobThatPanics)
	},
	"TryGo, gate": func(g *group.Group) {
		g.SetGate(gate.NewConcurrency(1))
		g.SetLimit(1)
		g.TryGo(jobThatPanics)
	},
}

// A panic ends the program with the stack of where it happened, and Wait does not return
// before that.
func TestPanicCrashes(t *testing.T) {
	if crash := crashes[os.Getenv(crashEnv)]; crash != nil {
		g := new(group.Group)
		crash(g)
		fmt.Println("complete:", g.Wait())
		os.Exit(0)
	}
	for name := range crashes {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPanicCrashes$")
		cmd.Env = append(os.Environ(), crashEnv+"="+name, "GOTRACEBACK=single")
		out, err := cmd.CombinedOutput()
		text := string(out)
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || strings.Contains(text, "complete:") {
			t.Errorf("%s: the program ended with %v:\n%s", name, err, text)
		}
		for _, want := range []string{"panic: a cog is missing", "jobThatPanics"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in what the program said:\n%s", name, want, text)
			}
		}
		if name == "gate" && !strings.Contains(text, "left the gate") {
			t.Errorf("%s: the gate was not left:\n%s", name, text)
		}
	}
}
