package group_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escapement-go/escapement/gate"
	"github.com/escapement-go/escapement/group"
)

// crashEnv names the program that the test binary is to be instead of a test.
const crashEnv = "ESCAPEMENT_GROUP_CRASH"

func jobThatPanics() error { panic("a cog is missing") }

func numberThatPanics(_ context.Context, n int) (int, error) {
	if n == 10 {
		return 0, jobThatPanics()
	}
	return n, nil
}

// crashes are programs that look complete if Wait returns.
var crashes = map[string]func(g *group.Group){
	"Go":    func(g *group.Group) { g.Go(jobThatPanics) },
	"TryGo": func(g *group.Group) { g.TryGo(jobThatPanics) },
	"gate": func(g *group.Group) {
		g.SetGate(&fakeGate{onEnd: func() { fmt.Fprintln(os.Stderr, "left the gate") }})
		g.Go(jobThatPanics)
	},
	"Map": func(g *group.Group) {
		for range group.Map(g, group.From(g, count), numberThatPanics, nil) {
		}
	},
	"Map, gate, ordered": func(g *group.Group) {
		s := &group.Stage{Workers: 4, Ordered: true, Gate: &fakeGate{}}
		for range group.All(g, group.Map(g, group.From(g, count), numberThatPanics, s)) {
		}
	},
	"ForEach": func(g *group.Group) {
		group.ForEach(g, group.From(g, count), func(ctx context.Context, n int) error {
			_, err := numberThatPanics(ctx, n)
			return err
		}, nil)
	},
	"From": func(g *group.Group) {
		for range group.From(g, func(yield func(int) bool) {
			yield(1)
			jobThatPanics()
		}) {
		}
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

// In a group that was told so, a panic is an error: of a job, of a stage or of a sink, with
// the stack of where it happened.
func TestSetRecover(t *testing.T) {
	for name, run := range map[string]func(g *group.Group) error{
		"Go":    func(g *group.Group) error { g.Go(jobThatPanics); return g.Wait() },
		"TryGo": func(g *group.Group) error { g.TryGo(jobThatPanics); return g.Wait() },
		"gate": func(g *group.Group) error {
			g.SetGate(gate.NewConcurrency(1))
			g.Go(jobThatPanics)
			return g.Wait()
		},
		"Map": func(g *group.Group) error {
			_, err := group.Collect(g, group.Map(g, group.From(g, count), numberThatPanics, nil))
			return err
		},
		"FilterMap": func(g *group.Group) error {
			_, err := group.Collect(g, group.FilterMap(g, group.From(g, count), func(ctx context.Context, n int) (int, bool, error) {
				n, err := numberThatPanics(ctx, n)
				return n, true, err
			}, &group.Stage{Workers: 3, Ordered: true, Gate: gate.NewConcurrency(2)}))
			return err
		},
		"FlatMap": func(g *group.Group) error {
			_, err := group.Collect(g, group.FlatMap(g, group.From(g, count), func(ctx context.Context, n int, _ func(int) bool) error {
				_, err := numberThatPanics(ctx, n)
				return err
			}, nil))
			return err
		},
		"ForEach": func(g *group.Group) error {
			return group.ForEach(g, group.From(g, count), func(context.Context, int) error { return jobThatPanics() }, nil)
		},
		"Reduce": func(g *group.Group) error {
			_, err := group.Reduce(g, group.From(g, count), 0, func(context.Context, int, int) (int, error) { return 0, jobThatPanics() })
			return err
		},
		"From": func(g *group.Group) error {
			_, err := group.Collect(g, group.From(g, func(func(int) bool) { jobThatPanics() }))
			return err
		},
		"Generate": func(g *group.Group) error {
			_, err := group.Collect(g, group.Generate(g, func(context.Context, func(int) bool) error { return jobThatPanics() }))
			return err
		},
		"Cost": func(g *group.Group) error {
			return group.ForEach(g, group.From(g, count), func(context.Context, int) error { return nil },
				&group.Stage{Gate: gate.NewConcurrency(1)}, func(int) int { jobThatPanics(); return 1 })
		},
		"TryMap": func(g *group.Group) error {
			results, err := group.Collect(g, group.TryMap(g, group.From(g, upTo(20)), numberThatPanics, nil))
			if len(results) != 20 || err != nil {
				return fmt.Errorf("%d results and %w", len(results), err)
			}
			return errors.Join(results[10].Err, g.Wait())
		},
	} {
		inBubble(t, func(t *testing.T) {
			g, _ := group.WithContext(context.Background())
			g.SetRecover(true)
			err := run(g)
			var p *group.PanicError
			if !errors.As(err, &p) || p.Value != "a cog is missing" || !strings.Contains(string(p.Stack), "jobThatPanics") {
				t.Errorf("%s: the error is %v", name, err)
			} else if text := p.Error(); !strings.HasPrefix(text, "panic: a cog is missing\n\ngoroutine ") || p.Unwrap() != nil {
				t.Errorf("%s: the error says %q", name, text)
			}
			if name != "TryMap" && g.Wait() != err {
				t.Errorf("%s: Wait returned %v", name, g.Wait())
			}
		})
	}
	if err := error(&group.PanicError{Value: errOne}); !errors.Is(err, errOne) {
		t.Error("a PanicError does not match the error that it carries")
	}
}

// A panic that became an error gives the place at the gate to nobody.
func TestRecoveredPanicGivesPlaceToNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for range 100 {
			g, goOn := new(group.Group), make(chan struct{})
			slots := gate.NewConcurrency(1)
			g.SetRecover(true)
			g.SetGate(slots)
			g.Go(func() error { <-goOn; return jobThatPanics() })
			synctest.Wait()
			for range 3 {
				g.Go(mustNotRun(t, "a job that waited when another panicked"))
			}
			out := group.Map(g, counted(3), func(_ context.Context, n int) (int, error) {
				t.Error("a stage that waited when a job panicked called f")
				return n, nil
			}, &group.Stage{Workers: 2, Gate: slots})
			synctest.Wait()
			close(goOn)
			for range out {
			}
			if err := (*group.PanicError)(nil); !errors.As(g.Wait(), &err) {
				t.Error(g.Wait())
			}
		}
	})
}
