package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// The program for real, every limiter, for a moment: what it makes is there and can be read.
// What it measures on a busy machine does not matter.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{
		"-rates", "1000,100000", "-callers", "1,2", "-queues", "100@5000", "-duration", "5ms", "-rounds", "3",
		"-csv", file("out.csv"), "-raw", file("raw.csv"), "-md", file("out.md"), "-out", file("pictures"),
	}, &out, &errs, peers.All())
	if code != ok || errs.Len() > 0 {
		t.Fatalf("exit %d, standard error %q", code, errs.String())
	}
	for _, text := range []string{out.String(), read(t, file("out.md"))} {
		for _, want := range append(names(peers.All()), "1 caller in a loop", "2 callers in a loop", "Queued, then let go", "Targets") {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	const cases = 2*2 + 1
	if lines := readCSV(t, file("out.csv")); len(lines) != 1+cases*len(peers.All()) {
		t.Errorf("%d lines", len(lines))
	}
	if lines := readCSV(t, file("raw.csv")); len(lines) < 1+3*100*(len(peers.All())-1) {
		t.Errorf("%d instants", len(lines)-1)
	}
	md := read(t, file("out.md"))
	for _, name := range []string{"error-1", "error-2", "gaps-1000-1", "gaps-1000-2", "tokens-queue-5000-100"} {
		if !strings.Contains(md, "](pictures/"+name+".svg)") {
			t.Errorf("%s is not in the Markdown", name)
		}
		if svg := read(t, file("pictures/"+name+".svg")); !strings.Contains(svg, "<svg") || strings.Count(svg, "<path") < len(peers.All()) {
			t.Errorf("%s.svg is not a picture", name)
		}
		f, err := os.Open(file("pictures/" + name + ".png"))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := png.Decode(f); err != nil {
			t.Errorf("%s.png: %v", name, err)
		}
		f.Close()
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readCSV(t *testing.T, name string) [][]string {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(read(t, name))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// In a bubble no caller is late. Two runs are the same there, but for the processor time and the
// time that was stolen, which are real.
func TestProgramIsDeterministic(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.csv")
	args := []string{"-limiters", "gate.Rate/Auto,x/time", "-rates", "1000", "-callers", "1", "-queues", "100@5000", "-duration", "100ms", "-csv", file}
	cpu, stolen := slices.Index(csvHead, "cpu_ns_per_token"), slices.Index(csvHead, "stolen_ns")
	var lines [2][][]string
	for i := range lines {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			if code := run(t.Context(), args, &out, io.Discard, peers.All()); code != ok {
				t.Errorf("exit %d", code)
			}
			for _, want := range []string{
				"rate held, 1 caller, 100/s to 100,000/s within 0.1 % 0 % x/time/rate: 0 % at worst met",
				"gap error p99, 1,000/s, 1 caller, Auto at most a fifth of the best peer's 0s x/time/rate: 0s met",
				"gate.Rate/Auto 1,000 1,000 0.000 % 0s 0s 0s 0s 0s 0s 0s 0s 0.000",
				"gate.Rate/Auto 100 5,000 20ms 1.000 0.000 0s 0s 0s 0s 0s",
			} {
				if !strings.Contains(words(out.String()), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
		})
		lines[i] = readCSV(t, file)
		for _, l := range lines[i] {
			l[cpu], l[stolen] = "", ""
		}
	}
	if !slices.EqualFunc(lines[0], lines[1], slices.Equal) || len(lines[0]) != 5 {
		t.Errorf("%q\nand\n%q", lines[0], lines[1])
	}
}

// words returns s with single spaces.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// slow says when it is waited for.
type slow struct{ waited func() }

func (s slow) Wait(ctx context.Context) error {
	s.waited()
	<-ctx.Done()
	return ctx.Err()
}

// After an interrupt there is a report of what was measured by then.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		all := []measure.Candidate{peers.All()[0], {Name: "slow", New: func(int) measure.Limiter { return slow{cancel} }}, peers.All()[1]}
		var out, errs bytes.Buffer
		file := filepath.Join(t.TempDir(), "out.csv")
		args := []string{"-rates", "100", "-callers", "1", "-queues", "none", "-csv", file}
		if code := run(ctx, args, &out, &errs, all); code != interrupted {
			t.Errorf("exit %d, want %d", code, interrupted)
		}
		if got, want := errs.String(), "accuracy: interrupted after 1 of 3 cases\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if lines := readCSV(t, file); len(lines) != 2 || lines[1][0] != peers.Auto {
			t.Errorf("%q", lines)
		}
		if !strings.Contains(out.String(), "Targets") {
			t.Errorf("no targets in\n%s", out.String())
		}
	})
}

type broken struct{}

func (broken) Wait(context.Context) error { return errors.New("out of order") }

// A limiter that fails is reported, and the others are measured all the same.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []measure.Candidate{{Name: "broken", New: func(int) measure.Limiter { return broken{} }}, peers.All()[0]}
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"-rates", "100", "-callers", "1", "-queues", "none"}, &out, &errs, all)
		if got, want := errs.String(), "accuracy: broken, 100/s, 1 caller: failed: out of order\n"; code != failed || got != want {
			t.Errorf("exit %d, %q, want %q", code, got, want)
		}
		if !strings.Contains(out.String(), "failed: out of order") || !strings.Contains(words(out.String()), peers.Auto+" 100 100.0 0.000 %") {
			t.Errorf("\n%s", out.String())
		}
	})
}

// A case that is left out is no failure.
func TestLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"-limiters", "uber/ratelimit/noslack", "-rates", "1", "-callers", "3", "-queues", "none"}, &out, &errs, peers.All())
		if want := "uber/ratelimit/noslack 1 left out: its waits can't be cancelled"; code != ok || errs.Len() > 0 || !strings.Contains(words(out.String()), want) {
			t.Errorf("exit %d, standard error %q, output\n%s", code, errs.String(), out.String())
		}
	})
}

func TestMisuse(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"-h", ok, ""},
		{"-nope", misuse, "flag provided but not defined: -nope"},
		{"extra", misuse, `there must be no arguments, got ["extra"]`},
		{"-limiters gate,nobody", misuse, `each must be a limiter or the beginning of its name`},
		{"-limiters gate,", misuse, `got ""`},
		{"-rates 0", misuse, `each must be a whole number from 1 to 10000000, got "0"`},
		{"-rates 10,x", misuse, `got "x"`},
		{"-rates 10000001", misuse, `got "10000001"`},
		{"-callers -1", misuse, `each must be a whole number from 1 to 10000000, got "-1"`},
		{"-queues 10", misuse, `each must be written as callers@rate, got "10"`},
		{"-queues 0@1", misuse, `got "0"`},
		{"-queues 1@0", misuse, `got "0"`},
		{"-duration 0s", misuse, "-duration must be positive and at most 1h, got 0s"},
		{"-duration 2h", misuse, "got 2h0m0s"},
		{"-tokens -1", misuse, "-tokens must be from 0 to 10000000, got -1"},
		{"-tokens 10000001", misuse, "got 10000001"},
		{"-rounds 0", misuse, "-rounds must be odd and from 1 to 99, got 0"},
		{"-rounds 4", misuse, "got 4"},
		{"-csv " + filepath.Join(dir, "no", "such.csv"), failed, "such.csv"},
		{"-md " + filepath.Join(dir, "no", "such.md"), failed, "such.md"},
		{"-raw " + filepath.Join(dir, "no", "such.csv"), failed, "such.csv"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(tt.args), &out, &errs, peers.All())
		if code != tt.code || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%s: exit %d, want %d; standard error %q, want %q in it", tt.args, code, tt.code, errs.String(), tt.want)
		}
		if tt.code == ok && !strings.Contains(out.String(), "-short") {
			t.Errorf("%s: %q", tt.args, out.String())
		}
	}
}

func TestFlags(t *testing.T) {
	all := peers.All()
	for _, tt := range []struct {
		args                  string
		limiters              int
		rates, callers, queue []int // of queues the callers
		duration              time.Duration
		tokens                int
		busy                  int // cases
	}{
		{"", len(all), allRates, allCallers, []int{10_000, 100_000, 1_000_000}, 2 * time.Second, 0, 24},
		{"-short", len(all), shortRates, shortCallers, []int{10_000}, shortDuration, 0, 2},
		{"-busy=false", len(all), allRates, allCallers, []int{10_000, 100_000, 1_000_000}, 2 * time.Second, 0, 0},
		{"-busy", len(all), nil, nil, nil, 2 * time.Second, 0, 24},
		{"-busy -short", len(all), nil, nil, nil, shortDuration, 0, 2},
		{"-busy -callers 5", len(all), allRates, []int{5}, []int{10_000, 100_000, 1_000_000}, 2 * time.Second, 0, 24},
		{"-short -rates 7,3,7 -duration 1s -tokens 8", len(all), []int{3, 7}, shortCallers, []int{10_000}, time.Second, 8, 0},
		{"-limiters gate,time -queues none -callers 5", 4, allRates, []int{5}, nil, 2 * time.Second, 0, 0},
		{"-limiters juju/ratelimit -queues 10@20,30@40", 1, allRates, allCallers, []int{10, 30}, 2 * time.Second, 0, 0},
	} {
		o, err := parse(strings.Fields(tt.args), io.Discard, all)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		var queue []int
		for _, q := range o.queues {
			queue = append(queue, q.callers)
		}
		if len(o.candidates) != tt.limiters || !slices.Equal(o.rates, tt.rates) || !slices.Equal(o.callers, tt.callers) || !slices.Equal(queue, tt.queue) || o.duration != tt.duration {
			t.Errorf("%q: %d limiters, %v, %v, %v, %v", tt.args, len(o.candidates), o.rates, o.callers, queue, o.duration)
		}
		for _, c := range o.jobs() {
			if c.load.name == "" && !c.Queued && c.MinTokens != tt.tokens {
				t.Errorf("%q: %v with at least %d tokens, want %d", tt.args, c, c.MinTokens, tt.tokens)
			}
		}
		if n := len(o.busy); stoppable && n != tt.busy {
			t.Errorf("%q: %d cases on busy processors, want %d", tt.args, n, tt.busy)
		}
		for _, j := range o.busy {
			if want := max(2*tt.duration, 100*time.Millisecond); j.Duration != 2*tt.duration || j.Planned() > want+200*time.Millisecond {
				t.Errorf("%q: %v takes %v, want about %v", tt.args, j, j.Planned(), want)
			}
		}
		if n := len(o.jobs()); n != len(o.rates)*len(o.callers)+len(o.queues)+len(o.busy) {
			t.Errorf("%q: %d cases", tt.args, n)
		}
	}
}

// What can't be written is an error.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		args := []string{"-limiters", "gate.Rate/Auto", "-rates", "100", "-callers", "1", "-queues", "none"}
		var errs bytes.Buffer
		if code := run(t.Context(), args, full{}, &errs, peers.All()); code != failed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("exit %d, standard error %q", code, errs.String())
		}
	})
}

// full is a disk with no space left.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestCheck(t *testing.T) {
	unlimited := func(int) measure.Limiter { return broken{} }
	for want, all := range map[string][]measure.Candidate{
		`report: Main: each candidate must have a name of its own, got ""`:  {{New: unlimited}},
		`report: Main: each candidate must have a name of its own, got "a"`: {{Name: "a", New: unlimited}, {Name: "a", New: unlimited}},
		`report: Main: each candidate must have New, got "a" without`:       {{Name: "a"}},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("%v, want %v", got, want)
				}
			}()
			check(all)
		}()
	}
	check(peers.All())
}
