package promgate_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

var (
	metricName = regexp.MustCompile(`escapement_\w+`)
	selector   = regexp.MustCompile(`(rate\()?(escapement_\w+)(\{[^}]*\})?`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\) \((?:rate\()?(escapement_\w+)`)
	labelName  = regexp.MustCompile(`(\w+)=~?"`)
	legendName = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// The dashboard is one that Grafana can read, and queries nothing that the collector does not have: neither metrics
// nor labels. Counts are queried as rates, and levels are not.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title, UID    string
		SchemaVersion int
		Templating    struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ RefID, Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	sent := scraped(t, everything())
	labels := map[string][]string{} // of each metric
	for name, f := range sent {
		labels[name] = []string{"job", "instance"} // Prometheus adds these
		for _, l := range f.Metric[0].Label {
			labels[name] = append(labels[name], l.GetName())
		}
	}
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range board.Templating.List {
		variables[v.Name] = true
		for _, name := range metricName.FindAllString(v.Definition, -1) {
			if sent[name] == nil {
				t.Errorf("variable %s: there is no %s", v.Name, name)
			}
		}
	}
	ids, cells, queries := map[int]bool{}, map[[2]int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cells[cell] || cell[0] >= 24 {
					t.Fatalf("%s overlaps another panel, or the edge, at %v", p.Title, cell)
				}
				cells[cell] = true
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("%s queries nothing", p.Title)
		}
		for _, q := range p.Targets {
			queries++
			found := selector.FindAllStringSubmatch(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%s: no metric in %s", p.Title, q.Expr)
			}
			for _, m := range found {
				f := sent[m[2]]
				if f == nil {
					t.Errorf("%s: there is no %s", p.Title, m[2])
					continue
				}
				if rate := m[1] != ""; rate != (f.GetType() == dto.MetricType_COUNTER) {
					t.Errorf("%s: %s is a %v, and rate is %v", p.Title, m[2], f.GetType(), rate)
				}
				for _, l := range labelName.FindAllStringSubmatch(m[3], -1) {
					if !slices.Contains(labels[m[2]], l[1]) {
						t.Errorf("%s: %s has no label %s", p.Title, m[2], l[1])
					}
				}
			}
			shown := []string{}
			for _, g := range grouping.FindAllStringSubmatch(q.Expr, -1) {
				shown = strings.Split(g[1], ", ")
				for _, l := range shown {
					if !slices.Contains(labels[g[2]], l) {
						t.Errorf("%s: %s has no label %s", p.Title, g[2], l)
					}
				}
			}
			for _, l := range legendName.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !slices.Contains(shown, l[1]) {
					t.Errorf("%s: the legend has %s, the query has %v", p.Title, l[1], shown)
				}
			}
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !variables[v[1]] {
					t.Errorf("%s: there is no variable %s", p.Title, v[1])
				}
			}
			if strings.Count(q.Expr, "(") != strings.Count(q.Expr, ")") || strings.Count(q.Expr, "{") != strings.Count(q.Expr, "}") {
				t.Errorf("%s: parentheses of %s", p.Title, q.Expr)
			}
		}
	}
	if board.Title == "" || board.UID == "" || board.SchemaVersion < 30 || queries < 20 {
		t.Errorf("%q %q, schema %d, %d queries", board.Title, board.UID, board.SchemaVersion, queries)
	}
}
