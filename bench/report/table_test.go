package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
)

// two are rows with every kind of figure.
func two() rows {
	loop := row{
		limiter: "a", rounds: 3, Case: measure.Case{PerSecond: 1000, Callers: 64, Duration: time.Second},
		tokens: 1001, rate: 1000.25, offset: 0.00025,
		gap:  quantiles{1500, 123456, 2 * time.Millisecond, 3 * time.Second},
		late: quantiles{0, 1, 22, 333},
		used: 0.5, slack: 10 * time.Millisecond, excess: 0.125, cpu: 1234.5, stolen: 30 * time.Millisecond,
	}
	queue := row{
		limiter: "b|c", rounds: 1, peer: true, Case: measure.Case{PerSecond: 500_000, Callers: 1_000_001, Queued: true},
		tokens: 1_000_001, rate: 500_000, offset: 0, used: math.NaN(),
		excess: 5000, cpu: math.NaN(), total: 2002 * time.Millisecond, held: true, stolen: -1,
	}
	silent := missing(measure.Candidate{Name: "d"}, job{Case: measure.Case{PerSecond: 1, Callers: 64, Duration: time.Second}}, measure.ErrDeaf)
	return rows{loop, queue, silent}
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	for _, x := range tables(two()) {
		if err := x.text(&out); err != nil {
			t.Fatal(err)
		}
	}
	want := `64 callers in a loop

limiter  per s  achieved     error  gap error p50    p99  p99.9  max  late p50  p99  p99.9    max  excess  CPU/token
a        1,000     1,000  +0.025 %          1.5µs  123µs    2ms   3s        0s  1ns   22ns  333ns   0.125     1.23µs
d            1  left out: its waits can't be cancelled

Queued, then let go

limiter    callers    per s   total  × ideal  excess  gap error p99  p99.9  max  late p99  max  CPU/token  held
b|c      1,000,001  500,000  2.002s    1.001   5,000             0s     0s   0s        0s   0s          –   yes

`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMarkdown(t *testing.T) {
	x := &table{title: "Title", head: []string{"a", "b"}}
	x.add("1|2", "3")
	texts := &table{title: "Texts", texts: true, head: []string{"a", ""}}
	var out bytes.Buffer
	for _, x := range []*table{x, texts} {
		if err := x.markdown(&out); err != nil {
			t.Fatal(err)
		}
	}
	want := "## Title\n\n| a | b |\n| --- | ---: |\n| 1\\|2 | 3 |\n\n## Texts\n\n| a |  |\n| --- | --- |\n\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCSV(t *testing.T) {
	var out bytes.Buffer
	if err := writeCSV(&out, two()); err != nil {
		t.Fatal(err)
	}
	want := strings.Join(csvHead, ",") + `
a,loop,1000,64,,1001,1000.25,0.00025,1500,123456,2000000,3000000000,0,1,22,333,0.125,1234.5,,,,,30000000,3,0.5,10000000
b|c,queue,500000,1000001,,1000001,500000,0,0,0,0,0,0,0,0,0,5000,,2002000000,2000000000,true,false,,1,,0
d,loop,1,64,left out: its waits can't be cancelled,,,,,,,,,,,,,,,,,,,1,,0
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFigures(t *testing.T) {
	for want, got := range map[string]string{
		"1,234,567": thousands(1234567), "-1,000": thousands(-1000), "-999": thousands(-999), "0": thousands(0),
		"0.000": digits(0), "9.999": digits(9.9994), "10.00": digits(9.9996), "123.5": digits(123.45), "1,000": digits(999.96), "–": digits(math.NaN()), "-0.500": digits(-0.5),
		"0.000 %": percent(0.000001), "−64.2 %": percent(-0.642), "+0.100 %": percent(0.001), "+9.000 %": percent(0.09),
		"1.23ms": short(1234567), "999ns": short(999), "1µs": short(1000), "12.3s": short(12345 * time.Millisecond),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
