package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
)

// stoppedEnv is the environment variable with the order for a process that the program starts to
// stop it now and then.
const stoppedEnv = "ESCAPEMENT_ACCURACY_STOPPED"

// pause is for how long the process is stopped, and then runs, in turns. A quota of half of the
// processors does that to a program that computes: it has used up its quota after half of each
// period.
const pause = 50 * time.Millisecond

// order is what such a process is to play.
type order struct {
	Limiter string
	Case    measure.Case
}

// outcome is what such a process reports: all that does not follow from the case and the instants.
type outcome struct {
	Grants         []int64
	Length, Stolen time.Duration
	Excess         float64
}

// obey plays an order in such a process and writes the outcome. It returns the exit status.
func obey(text string, all []measure.Candidate, stdout, stderr io.Writer) int {
	err := func() error {
		var o order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(c measure.Candidate) bool { return c.Name == o.Limiter })
		if i < 0 {
			return fmt.Errorf("no limiter %q", o.Limiter)
		}
		r, err := measure.Run(context.Background(), all[i], o.Case)
		if err != nil {
			return err
		}
		return json.NewEncoder(stdout).Encode(outcome{r.Grants, r.Length, r.Stolen, r.Excess})
	}()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return failed
	}
	return ok
}

// result returns what the process has seen.
func (o *outcome) result(what measure.Case) *measure.Result {
	return &measure.Result{
		Case: what, Tokens: len(o.Grants), Rate: measure.Rate(o.Grants), Length: o.Length,
		Gap: measure.GapErrors(o.Grants, what.PerSecond), Late: measure.Lateness(o.Grants, what.PerSecond),
		Excess: o.Excess, CPU: math.NaN(), Stolen: o.Stolen, Grants: o.Grants,
	}
}
