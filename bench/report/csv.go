package report

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/escapement-go/escapement/bench/measure"
)

var csvHead = []string{
	"limiter", "mode", "per_second", "callers", "note", "tokens", "rate", "error",
	"gap_p50_ns", "gap_p99_ns", "gap_p999_ns", "gap_max_ns",
	"late_p50_ns", "late_p99_ns", "late_p999_ns", "late_max_ns",
	"excess", "cpu_ns_per_token", "total_ns", "ideal_ns", "held", "cut", "stolen_ns", "rounds",
	"used", "slack_ns",
}

// writeCSV writes one line for each row, nothing rounded. What is not known is empty.
func writeCSV(w io.Writer, rows []row) error {
	c := csv.NewWriter(w)
	if err := c.Write(csvHead); err != nil {
		return err
	}
	for _, r := range rows {
		line := []string{r.limiter, r.mode(), strconv.Itoa(r.PerSecond), strconv.Itoa(r.Callers), r.note}
		if r.measured() {
			line = append(line, strconv.Itoa(r.tokens), plain(r.rate), plain(r.offset))
			for _, q := range []quantiles{r.gap, r.late} {
				line = append(line, ns(q.p50), ns(q.p99), ns(q.p999), ns(q.max))
			}
			line = append(line, plain(r.excess), plain(r.cpu))
			if r.Queued {
				line = append(line, ns(r.total), ns(r.Ideal()), strconv.FormatBool(r.held), strconv.FormatBool(r.cut))
			}
		}
		line = append(line, make([]string, len(csvHead)-4-len(line))...)
		stolen := ""
		if r.stolen >= 0 {
			stolen = ns(r.stolen)
		}
		line = append(line, stolen, strconv.Itoa(r.rounds), plain(r.used), ns(r.slack))
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// mode says of which table a row is; of busy processors, which load.
func (r row) mode() string {
	if r.load != "" {
		return r.load
	}
	return mode(r.Case)
}

func mode(c measure.Case) string {
	if c.Queued {
		return "queue"
	}
	return "loop"
}

func plain(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func ns(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }

// raw writes the instant of every token.
type raw struct{ c *csv.Writer }

func newRaw(w io.Writer) (*raw, error) {
	c := csv.NewWriter(w)
	return &raw{c}, c.Write([]string{"limiter", "mode", "per_second", "callers", "round", "granted_ns"})
}

// add writes those of a row. The nil raw does nothing.
func (r *raw) add(of row, round int, grants []int64) error {
	if r == nil {
		return nil
	}
	line := []string{of.limiter, of.mode(), strconv.Itoa(of.PerSecond), strconv.Itoa(of.Callers), strconv.Itoa(round), ""}
	for _, at := range grants {
		line[5] = strconv.FormatInt(at, 10)
		if err := r.c.Write(line); err != nil {
			return err
		}
	}
	r.c.Flush()
	return r.c.Error()
}
