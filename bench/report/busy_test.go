package report

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
	"github.com/escapement-go/escapement/bench/peers"
)

// loaded is a row of the table of busy processors.
func loaded(name, load string, callers, perSecond int, used, excess float64) row {
	r := looped(name, callers, perSecond, func(r *row) { r.load, r.used, r.excess = load, used, excess })
	if name == peers.Auto {
		r.slack = 100 * time.Millisecond
	}
	return r
}

func TestBusyTables(t *testing.T) {
	broken := loaded("b", "4 busy", 64, 1000, 0, 0)
	broken.note = "failed: no"
	rs := rows{
		looped("a", 64, 1000, offset(0)),
		loaded(peers.Auto, "idle", 64, 1000, 1.0004, 100), loaded("b", "idle", 64, 1000, 0.5, 1.25),
		loaded(peers.Auto, "4 busy", 64, 1000, 0.98, 100.5), broken,
		loaded(peers.Auto, "idle", 64, 5000, 0.25, 501), // interrupted after it
	}
	var out bytes.Buffer
	for _, x := range tables(rs)[1:] {
		if err := x.text(&out); err != nil {
			t.Fatal(err)
		}
	}
	want := `64 callers in a loop, processors busy

limiter         per s  idle: used   over  4 busy: used   over
gate.Rate/Auto  1,000     100.0 %  0.000        98.0 %  0.500
b               1,000      50.0 %  1.250    failed: no      –
gate.Rate/Auto  5,000      25.0 %  1.000             –      –
b               5,000           –      –             –      –

`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := rs.pictures(), rs[:1].pictures(); len(want) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("busy processors are in the pictures: %v, want %v", got, want)
	}
	if loop, busy := rs[0].mode(), rs[3].mode(); loop != "loop" || busy != "4 busy" {
		t.Errorf("%q and %q", loop, busy)
	}
}

func TestBusyTarget(t *testing.T) {
	good := loaded(peers.Auto, "idle", 1, 100, 0.98, 10)
	for _, tt := range []struct {
		name                  string
		rows                  rows
		figure, best, verdict string
	}{
		{"nothing", rows{looped(peers.Auto, 1, 100, offset(0)), loaded(peers.XTime, "idle", 1, 100, 0.5, 9)}, "", "x/time/rate: 50.0 % at worst", "not measured"},
		{"used", rows{good, loaded(peers.Auto, "4 busy", 1, 1000, 1.01, 100), loaded(peers.XTime, "idle", 1, 100, 1, 0)},
			"98.0 % at worst, at 100/s, 1 caller, idle; 0.000 over the bound (of 2 cases)", unknown, "met"},
		{"not used", rows{good, loaded(peers.Auto, "4 busy", 64, 5000, 0.979, 0), loaded("p", "idle", 1, 100, 0.9, 0), loaded("p", "4 busy", 64, 5000, 0.3, 0),
			loaded("q", "idle", 1, 100, 0.7, 0), loaded("q", "4 busy", 64, 5000, 0.4, 0)},
			"97.9 % at worst, at 5,000/s, 64 callers, 4 busy; 0.000 over the bound (of 2 cases)", "q: 40.0 % at worst", "missed"},
		{"over", rows{good, loaded(peers.Auto, "4 busy", 1, 1000, 1, 100.25)},
			"98.0 % at worst, at 100/s, 1 caller, idle; 0.250 over the bound (of 2 cases)", unknown, "missed"},
	} {
		all := tt.rows.targets()
		got := all[len(all)-1]
		if got.figure != tt.figure || got.best != tt.best || string(got.verdict) != tt.verdict {
			t.Errorf("%s: %q, best %q, %s; want %q, best %q, %s", tt.name, got.figure, got.best, got.verdict, tt.figure, tt.best, tt.verdict)
		}
	}
}

// The rows of busy processors take no part in the other targets.
func TestBusyIsApart(t *testing.T) {
	for _, got := range (rows{loaded(peers.Auto, "4 busy", 1, 1000, 0.1, 0)}).targets() {
		if got.verdict != notMeasured && !strings.HasPrefix(got.what, "processors busy") {
			t.Errorf("%+v", got)
		}
	}
}

// The program for real, for a moment, under every load of -short.
func TestBusyProgram(t *testing.T) {
	args := []string{"-short", "-busy", "-duration", "20ms", "-limiters", peers.Auto}
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, &out, &errs, peers.All()); code != ok || errs.Len() > 0 {
		t.Fatalf("exit %d, standard error %q", code, errs.String())
	}
	for _, want := range []string{"64 callers in a loop, processors busy", "4 busy: used", peers.Auto + " ", peers.Hasty, "of 2 cases"} {
		if stoppable && !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// A process that is stopped for 50 ms notices nothing but that its clock has gone on.
func TestStopped(t *testing.T) {
	if !stoppable {
		t.Skip("this system can't stop a process")
	}
	stopped := job{measure.Case{PerSecond: 1000, Callers: 1, Duration: 300 * time.Millisecond}, load{name: "stopped", stopped: true}}
	r, err := stopped.play(t.Context(), measure.Candidate{Name: peers.Auto})
	if err != nil {
		t.Fatal(err)
	}
	if gap := time.Duration(r.Gap.Max()); r.Tokens < 2 || gap < pause*4/5 {
		t.Errorf("%d tokens, at most %v apart", r.Tokens, gap)
	}
	if r.Length < stopped.Duration || r.Case != stopped.Case || r.Late.TotalCount() != int64(r.Tokens) || len(r.Grants) != r.Tokens {
		t.Errorf("%+v", r)
	}
	if _, err := stopped.play(t.Context(), measure.Candidate{Name: "mine"}); err == nil || !strings.Contains(err.Error(), `no limiter "mine"`) {
		t.Errorf("%v, want that there is no such limiter", err)
	}
}

// What the process reports.
func TestObey(t *testing.T) {
	for text, want := range map[string]string{
		"{":                   "unexpected end of JSON input\n",
		`{"Limiter": "none"}`: "no limiter \"none\"\n",
		`{"Limiter": "broken", "Case": {"PerSecond": 1, "Callers": 1, "Duration": 1}}`: "out of order\n",
	} {
		var errs bytes.Buffer
		all := []measure.Candidate{{Name: "broken", New: func(int) measure.Limiter { return broken{} }}}
		if code := obey(text, all, io.Discard, &errs); code != failed || errs.String() != want {
			t.Errorf("%s: exit %d, %q, want %q", text, code, errs.String(), want)
		}
	}
}
