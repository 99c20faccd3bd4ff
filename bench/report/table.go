package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is cells under headings. The first column is aligned left, the others right; in a table of
// texts all are aligned left.
type table struct {
	title string
	texts bool
	head  []string
	cells [][]string
}

func (t *table) add(cells ...string) { t.cells = append(t.cells, cells) }

// left reports whether a column is aligned left.
func (t *table) left(column int) bool { return t.texts || column == 0 }

// text writes the table for a terminal. A note may be wider than its column, because nothing
// follows it.
func (t *table) text(w io.Writer) error {
	width := make([]int, len(t.head))
	for _, line := range append([][]string{t.head}, t.cells...) {
		for i, s := range line {
			if i+1 == len(line) || line[i+1] != "" || t.texts {
				width[i] = max(width[i], utf8.RuneCountInString(s))
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", t.title)
	for _, line := range append([][]string{t.head}, t.cells...) {
		var l strings.Builder
		for i, s := range line {
			pad := strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(s)))
			if t.left(i) {
				l.WriteString(s + pad + "  ")
			} else {
				l.WriteString(pad + s + "  ")
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown writes the table as Markdown.
func (t *table) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", t.title)
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = "---:"
		if t.left(i) {
			rule[i] = "---"
		}
	}
	for _, line := range append([][]string{t.head, rule}, t.cells...) {
		for _, s := range line {
			b.WriteString("| " + strings.ReplaceAll(s, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// tables returns the tables of all the rows: one for each number of callers, the queues, and those of
// busy processors.
func tables(rs rows) []*table {
	var all []*table
	loops := map[int]*table{}
	var queues *table
	for _, r := range rs.quiet() {
		if r.Queued {
			if queues == nil {
				queues = &table{title: "Queued, then let go", head: []string{"limiter", "callers", "per s",
					"total", "× ideal", "excess", "gap error p99", "p99.9", "max", "late p99", "max", "CPU/token", "held"}}
			}
			queues.add(r.queueCells()...)
			continue
		}
		t := loops[r.Callers]
		if t == nil {
			t = &table{title: fmt.Sprintf("%s in a loop", callers(r.Callers)), head: []string{"limiter", "per s", "achieved", "error",
				"gap error p50", "p99", "p99.9", "max", "late p50", "p99", "p99.9", "max", "excess", "CPU/token"}}
			loops[r.Callers] = t
			all = append(all, t)
		}
		t.add(r.loopCells()...)
	}
	if queues != nil {
		all = append(all, queues)
	}
	return append(all, rs.busy().busyTables()...)
}

// callers is a number of them, as one says it.
func callers(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return thousands(n) + " callers"
}

func (r row) loopCells() []string {
	cells := []string{r.limiter, thousands(r.PerSecond)}
	if !r.measured() {
		return append(append(cells, r.note), make([]string, 11)...)
	}
	return append(cells, digits(r.rate), percent(r.offset),
		short(r.gap.p50), short(r.gap.p99), short(r.gap.p999), short(r.gap.max),
		short(r.late.p50), short(r.late.p99), short(r.late.p999), short(r.late.max),
		digits(r.excess), processor(r.cpu))
}

func (r row) queueCells() []string {
	cells := []string{r.limiter, thousands(r.Callers), thousands(r.PerSecond)}
	if !r.measured() {
		return append(append(cells, r.note), make([]string, 9)...)
	}
	total, share := r.total.Round(time.Millisecond).String(), digits(r.share())
	held := "no"
	if r.held {
		held = "yes"
	}
	if r.cut {
		total, share = fmt.Sprintf("%s went in %s", thousands(r.tokens), total), "> 3"
	}
	return append(cells, total, share, digits(r.excess),
		short(r.gap.p99), short(r.gap.p999), short(r.gap.max), short(r.late.p99), short(r.late.max),
		processor(r.cpu), held)
}

// unknown stands where there is no figure.
const unknown = "–"

// digits writes a figure with four significant digits, and without decimals from 1,000 on.
func digits(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return unknown
	case a >= 999.95:
		return thousands(int(math.Round(x)))
	case a >= 99.995:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a >= 9.9995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}

// percent writes a share with its sign.
func percent(x float64) string {
	if math.IsNaN(x) {
		return unknown
	}
	decimals := 3
	if math.Abs(x) >= 0.0995 {
		decimals = 1
	}
	s := strconv.FormatFloat(100*math.Abs(x), 'f', decimals, 64) + " %"
	switch {
	case strings.Trim(s, "0. %") == "":
		return s
	case x < 0:
		return "−" + s
	}
	return "+" + s
}

// short writes a duration with three significant digits.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for n := d.Abs(); n >= 1000; n /= 10 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// processor writes a processor time in ns.
func processor(ns float64) string {
	if math.IsNaN(ns) {
		return unknown
	}
	return short(time.Duration(ns))
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
