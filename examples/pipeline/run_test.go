package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/escapement/examples/strictapi"
)

// asProgram makes the test binary the program itself, for those tests that need a process.
const asProgram = "PIPELINE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// outcome is what a run leaves behind.
type outcome struct {
	status         int
	stdout, stderr string
	api            *strictapi.Server
}

// play runs the program in this process.
func play(t *testing.T, ctx context.Context, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := program{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr}
	status := p.run(ctx, args)
	return outcome{status, stdout.String(), stderr.String(), p.api}
}

// wantLine checks what the summary says under the name.
func wantLine(t *testing.T, summary, name, pattern string) {
	t.Helper()
	got := "nothing"
	for line := range strings.Lines(summary) {
		if text, found := strings.CutPrefix(line, name+":"); found {
			got = strings.TrimSpace(text)
		}
	}
	if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
		t.Errorf("the summary says %q for %q, want %q; all of it:\n%s", got, name, pattern, summary)
	}
}

// rowsOf returns the rows of a database, by position. It fails if another program has it.
func rowsOf(t *testing.T, db string) []row {
	t.Helper()
	s, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	rows, err := s.db.Query("SELECT position, url, status, tries, ifnull(body, ''), ifnull(error, '') FROM pages ORDER BY position")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.position, &r.url, &r.status, &r.tries, &r.body, &r.err); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// wantAll checks that the database has a row for each URL of the list, in order, with a status of
// 200 and an answer of the strict API.
func wantAll(t *testing.T, db string, list []string) {
	t.Helper()
	rows := rowsOf(t, db)
	if len(rows) != len(list) {
		t.Fatalf("%d rows, want %d", len(rows), len(list))
	}
	calls := map[string]bool{}
	for i, r := range rows {
		if r.position != i+1 || r.url != list[i] || r.status != 200 || r.tries < 1 || r.err != "" ||
			!regexp.MustCompile(`^\{"call":\d+\}$`).MatchString(r.body) || calls[r.body] {
			t.Errorf("row %d: %+v, want one of %s, and an answer that no other has", i+1, r, list[i])
		}
		calls[r.body] = true
	}
}

// remote is a strict API that is not the program's own, and the list of its URLs.
type remote struct {
	*strictapi.Server
	list []string
	file string // that has the list
}

// newRemote starts an API. arrived, if not nil, is called for each call that arrives, before it is
// answered, with its number, from 1.
func newRemote(t *testing.T, n int, o *strictapi.Options, arrived func(n int, r *http.Request)) *remote {
	a := &remote{Server: strictapi.New(o)}
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := calls.Add(1); arrived != nil {
			arrived(int(n), r)
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	for i := range n {
		a.list = append(a.list, fmt.Sprintf("%s/pages/%d", s.URL, i+1))
	}
	a.file = listFile(t, a.list...)
	return a
}

func listFile(t *testing.T, list ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(file, []byte(strings.Join(list, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// callsOf returns how many calls arrived for each path. None of them may have been refused.
func (a *remote) callsOf(t *testing.T) map[string]int {
	t.Helper()
	calls := map[string]int{}
	for _, arrival := range a.Log() {
		calls[arrival.Path]++
		if arrival.Status == 429 || arrival.Status == 403 {
			t.Errorf("%s was answered %d after %v", arrival.Path, arrival.Status, arrival.At)
		}
	}
	return calls
}

func newDB(t *testing.T) string { return filepath.Join(t.TempDir(), "pages.db") }

// The API is in a bad mood, and nothing of it is seen in the end but the retries.
func TestOwnAPI(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	o := play(t, t.Context(), "", "-db", db, "-n", "150", "-guard", "1s", "-tries", "12")
	if o.status != ok || o.stderr != "" {
		t.Errorf("status %d, on standard error %q; want 0 and nothing", o.status, o.stderr)
	}
	if strings.ContainsAny(o.stdout, "\r\x1b") {
		t.Errorf("control characters in a pipe: %q", o.stdout)
	}
	wantAll(t, db, ownList(150))
	r := o.api.Report()
	if r.ByStatus[200] != 150 || r.ByStatus[503] == 0 || r.ByStatus[strictapi.StatusDropped] == 0 || r.Refusals != 0 {
		t.Errorf("by status %v, want 200 for 150, some 503, some cut, and none refused", r.ByStatus)
	}
	if worst := r.Worst(time.Second); worst > 100 {
		t.Errorf("%d arrivals in a second, want at most 100", worst)
	}
	tries := 0
	for _, r := range rowsOf(t, db) {
		tries += r.tries
	}
	if tries != r.Calls {
		t.Errorf("the rows tell of %d calls, want %d", tries, r.Calls)
	}
	wantLine(t, o.stdout, "list", "150 URLs")
	wantLine(t, o.stdout, "rows from before", "0")
	wantLine(t, o.stdout, "rows written", `150, in \d+ transactions?`)
	wantLine(t, o.stdout, "of these with an error", "0")
	wantLine(t, o.stdout, "rows missing", "0")
	wantLine(t, o.stdout, "calls", fmt.Sprint(r.Calls)) // net/http has sent none of its own
	wantLine(t, o.stdout, "of these retries", fmt.Sprint(r.Calls-150))
	wantLine(t, o.stdout, "the server's log", fmt.Sprintf("%d calls: 200: 150, connection cut: %d, 503: %d",
		r.Calls, r.ByStatus[strictapi.StatusDropped], r.ByStatus[503]))
	wantLine(t, o.stdout, "refused by the server", "0")

	t.Run("again", func(t *testing.T) {
		o := play(t, t.Context(), "", "-db", db, "-n", "150")
		if o.status != ok || o.api.Report().Calls != 0 {
			t.Errorf("status %d, %d calls; want 0 and none", o.status, o.api.Report().Calls)
		}
		wantLine(t, o.stdout, "rows from before", "150")
		wantLine(t, o.stdout, "rows written", "0, in 0 transactions")
	})
	t.Run("a list that has grown", func(t *testing.T) {
		o := play(t, t.Context(), "", "-db", db, "-n", "155", "-calm")
		if o.status != ok || o.api.Report().Calls != 5 {
			t.Errorf("status %d, %d calls; want 0 and 5", o.status, o.api.Report().Calls)
		}
		wantLine(t, o.stdout, "rows written", `5, in \d transactions?`)
		if rows := rowsOf(t, db); len(rows) != 155 || rows[154].url != ownHost+"/items/155" {
			t.Errorf("%d rows, want 155", len(rows))
		}
	})
}

// net/http sends nothing again by itself when a connection is cut that was used before.
func TestConnectionsCut(t *testing.T) {
	t.Parallel()
	api := newRemote(t, 40, &strictapi.Options{
		Moods: []strictapi.Mood{func(call int, _ time.Duration) (f strictapi.Fault) {
			if call%4 == 3 {
				f.Drop = strictapi.BeforeHeader
			}
			return f
		}},
	}, nil)
	db := newDB(t)
	o := play(t, t.Context(), "", "-db", db, "-limit", "1000/1s", "-in-flight", "1", "-tries", "30", api.file)
	if o.status != ok {
		t.Errorf("status %d, want 0: %s", o.status, o.stderr)
	}
	wantAll(t, db, api.list)
	calls := len(api.Log())
	wantLine(t, o.stdout, "calls", fmt.Sprint(calls))
	wantLine(t, o.stdout, "of these retries", fmt.Sprint(calls-40))
	tries := 0
	for _, r := range rowsOf(t, db) {
		tries += r.tries
	}
	if tries != calls || calls == 40 {
		t.Errorf("the rows tell of %d calls, want %d and more than 40", tries, calls)
	}
}

// Whatever was called for when the interrupt came is there, and is not called for again; and the
// run that goes on keeps the limit together with the one before.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	api := newRemote(t, 90, &strictapi.Options{
		Limit:   strictapi.SlidingWindow(60, time.Second),
		Latency: strictapi.Constant(100 * time.Millisecond), // so that some are in flight
		Ban:     &strictapi.Ban{},
	}, func(n int, _ *http.Request) {
		if n == 45 {
			interrupt()
		}
	})
	db := newDB(t)
	args := []string{"-db", db, "-limit", "60/1s", "-guard", "1s", "-batch", "10", api.file}
	o := play(t, ctx, "", args...)
	if o.status != interrupted || o.stderr != "pipeline: interrupted; the same command goes on\n" {
		t.Errorf("status %d, on standard error %q; want 130 and a hint", o.status, o.stderr)
	}
	calls := api.callsOf(t)
	rows := rowsOf(t, db)
	if len(calls) < 45 || len(calls) >= 90 {
		t.Fatalf("%d calls, want from 45 to 89", len(calls))
	}
	if len(rows) != len(calls) {
		t.Errorf("%d rows of %d calls", len(rows), len(calls))
	}
	for _, r := range rows {
		if calls[strings.TrimPrefix(r.url, api.list[0][:len(api.list[0])-len("/pages/1")])] != 1 || r.status != 200 {
			t.Errorf("%+v, of which the server knows nothing", r)
		}
	}
	wantLine(t, o.stdout, "rows written", fmt.Sprintf(`%d, in \d+ transactions?`, len(rows)))
	wantLine(t, o.stdout, "rows missing", fmt.Sprint(90-len(rows)))
	wantLine(t, o.stdout, "calls", fmt.Sprint(len(rows)))

	o = play(t, t.Context(), "", args...)
	if o.status != ok || o.stderr != "" {
		t.Errorf("status %d, on standard error %q; want 0 and nothing", o.status, o.stderr)
	}
	wantAll(t, db, api.list)
	for path, n := range api.callsOf(t) {
		if n != 1 {
			t.Errorf("%d calls for %s, want 1", n, path)
		}
	}
	log := api.Log()
	if len(log) != 90 {
		t.Fatalf("%d calls, want 90", len(log))
	}
	if pause := log[len(calls)].At - log[len(calls)-1].At; pause < 2*time.Second {
		t.Errorf("%v between the runs, want at least the span and the guard: the server counts on", pause)
	}
	wantLine(t, o.stdout, "rows from before", fmt.Sprint(len(rows)))
	wantLine(t, o.stdout, "calls", fmt.Sprint(90-len(rows)))
}

// An interrupt does not wait for another try, nor is a call that failed a row.
func TestInterruptedBetweenTries(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	api := newRemote(t, 2, &strictapi.Options{
		Moods: []strictapi.Mood{func(call int, _ time.Duration) (f strictapi.Fault) {
			if call == 0 {
				f.Status = 503
			}
			return f
		}},
	}, func(int, *http.Request) { interrupt() })
	db := newDB(t)
	o := play(t, ctx, "", "-db", db, "-limit", "1/1h", api.file)
	if o.status != interrupted {
		t.Errorf("status %d, want 130:\n%s", o.status, o.stderr)
	}
	if rows := rowsOf(t, db); len(rows) != 0 {
		t.Errorf("%+v, want no rows", rows)
	}
	wantLine(t, o.stdout, "calls", "1")
	wantLine(t, o.stdout, "rows missing", "2")
}

// What goes wrong with one item is in its row, and stops no other.
func TestErrorsAreRows(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	var mended atomic.Bool
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if mended.Load() {
			io.WriteString(w, "[ ]")
			return
		}
		switch r.URL.Path {
		case "/good":
			io.WriteString(w, " { \"a\" : \"<\u2028>\" }\n")
		case "/absent":
			w.WriteHeader(404)
		case "/moved":
			http.Redirect(w, r, "/good", http.StatusFound)
		case "/broken":
			w.WriteHeader(500)
		case "/text":
			io.WriteString(w, "hello")
		case "/long":
			io.WriteString(w, `"`+strings.Repeat("x", longestBody-1)+`"`)
		case "/short":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "short")
		case "/late":
			<-over
		case "/tired":
			w.WriteHeader(429)
		case "/busy":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(429)
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(over) })
	gone := httptest.NewServer(nil)
	gone.Close()
	want := []struct {
		url    string
		status int
		tries  int
		body   string
		err    string // a pattern
	}{
		{s.URL + "/good", 200, 1, "{\"a\":\"<\u2028>\"}", "^$"},
		{s.URL + "/absent", 404, 1, "", "^status 404$"},
		{s.URL + "/good", 200, 1, "{\"a\":\"<\u2028>\"}", "^$"}, // once for each line
		{s.URL + "/moved", 302, 1, "", "^status 302$"},
		{s.URL + "/broken", 500, 2, "", "^retry: no attempts left after 2 attempts: status 500$"},
		{s.URL + "/text", 200, 1, "", "^the body must be JSON: invalid character 'h' looking for beginning of value$"},
		{s.URL + "/long", 200, 1, "", "^the body must be at most 1048576 bytes, got more$"},
		{s.URL + "/short", 200, 2, "", "^retry: .*: unexpected EOF$"},
		{s.URL + "/late", 0, 2, "", "^retry: .*: context deadline exceeded"},
		{gone.URL + "/", 0, 2, "", "^retry: .*: dial tcp "},
		{s.URL + "/good", 200, 1, "{\"a\":\"<\u2028>\"}", "^$"},
		{s.URL + "/tired", 429, 2, "", "^retry: no attempts left after 2 attempts: status 429$"},
		{s.URL + "/busy", 429, 1, "", "^retry: asked to stay away for too long after 1 attempt: status 429$"},
	}
	var list []string
	for _, w := range want {
		list = append(list, w.url)
	}
	db := newDB(t)
	// The last one in a run of its own, because it holds all others.
	args := []string{"-db", db, "-limit", "1000/1s", "-tries", "2", "-timeout", "500ms"}
	o := play(t, t.Context(), strings.Join(list[:len(list)-1], "\n"), append(args, "-")...)
	if o.status != ok {
		t.Errorf("status %d, want 0: %s", o.status, o.stderr)
	}
	o = play(t, t.Context(), strings.Join(list, "\n"), append(args, "-")...)
	if o.status != ok {
		t.Errorf("status %d, want 0: %s", o.status, o.stderr)
	}
	wantLine(t, o.stdout, "rows from before", "12")
	wantLine(t, o.stdout, "of these with an error", "1")
	rows := rowsOf(t, db)
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, w := range want {
		r := rows[i]
		if r.url != w.url || r.status != w.status || r.tries != w.tries || r.body != w.body || !regexp.MustCompile(w.err).MatchString(r.err) {
			t.Errorf("row %+v, want %+v", r, w)
		}
	}

	t.Run("again", func(t *testing.T) {
		mended.Store(true)
		calls.Store(0)
		list[9] = s.URL + "/elsewhere"
		o := play(t, t.Context(), strings.Join(list, "\n"), append(args, "-again", "-")...)
		if want := "pipeline: " + db + ": the rows must be of this list, whose URL 10 is " + list[9] + ", got a row of " + want[9].url + "\n"; o.status != misuse || o.stderr != want {
			t.Errorf("status %d, %q, want 2 and %q", o.status, o.stderr, want)
		}
		if after := rowsOf(t, db); !slices.Equal(after, rows) {
			t.Errorf("rows %+v, want them unchanged", after)
		}
		list[9] = want[9].url
		o = play(t, t.Context(), strings.Join(list, "\n"), append(args, "-again", "-")...)
		if o.status != ok || calls.Load() != 9 {
			t.Errorf("status %d, %d calls; want 0, and one for each that answers now:\n%s", o.status, calls.Load(), o.stdout)
		}
		wantLine(t, o.stdout, "rows from before", "3")
		wantLine(t, o.stdout, "of these with an error", "1") // where nobody is
		for i, r := range rowsOf(t, db) {
			if want[i].err != "^$" && i != 9 && (r.status != 200 || r.body != "[]" || r.err != "") {
				t.Errorf("row %+v, want it mended", r)
			}
		}
	})
}

// A 429 holds everybody for as long as it says.
func TestHeld(t *testing.T) {
	t.Parallel()
	api := newRemote(t, 5, &strictapi.Options{Limit: strictapi.SlidingWindow(2, time.Second), Ban: &strictapi.Ban{}}, nil)
	db := newDB(t)
	o := play(t, t.Context(), "", "-db", db, "-limit", "1000/1s", "-in-flight", "1", api.file)
	if o.status != ok {
		t.Errorf("status %d, want 0:\n%s", o.status, o.stdout)
	}
	wantAll(t, db, api.list)
	r := api.Report()
	if r.Bans != 0 || r.ByStatus[429] == 0 {
		t.Errorf("by status %v, %d bans; want some 429, and no ban", r.ByStatus, r.Bans)
	}
	wantLine(t, o.stdout, "of these retries", fmt.Sprint(r.ByStatus[429]))
}

// When a transaction fails nothing of it is there, all before it is, and no more calls are made.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	s, err := openStore(db)
	if err == nil {
		_, err = s.db.Exec(`CREATE TRIGGER full BEFORE INSERT ON pages WHEN new.position = 25
			BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	api := newRemote(t, 2000, nil, nil)
	o := play(t, t.Context(), "", "-db", db, "-limit", "100/100ms", "-guard", "0s", "-batch", "10", api.file)
	if want := "pipeline: " + db + ": writing row 25: constraint failed: no room (1811)\n"; o.status != failed || o.stderr != want {
		t.Errorf("status %d, %q; want 1 and %q", o.status, o.stderr, want)
	}
	rows := rowsOf(t, db)
	if len(rows) >= 25 {
		t.Errorf("%d rows, want those of the transactions before", len(rows))
	}
	for i, r := range rows {
		if r.position != i+1 || r.url != api.list[i] {
			t.Errorf("row %+v, want that of %s", r, api.list[i])
		}
	}
	if n := len(api.Log()); n == 2000 {
		t.Error("all calls were made")
	}
	wantLine(t, o.stdout, "rows written", fmt.Sprintf(`%d, in \d transactions?`, len(rows)))
}

func TestPrint(t *testing.T) {
	t.Parallel()
	api := newRemote(t, 1, nil, nil)
	absent := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(absent.Close)
	db := newDB(t)
	if o := play(t, t.Context(), api.list[0]+"\n"+absent.URL, "-db", db, "-"); o.status != ok {
		t.Fatalf("status %d: %s", o.status, o.stderr)
	}
	o := play(t, t.Context(), "", "-db", db, "-print")
	want := "position,url,status,tries,body,error\n" +
		"1," + api.list[0] + `,200,1,"{""call"":0}",` + "\n" +
		"2," + absent.URL + ",404,1,,status 404\n"
	if o.status != ok || o.stdout != want || o.stderr != "" {
		t.Errorf("status %d\n%s%swant 0 and\n%s", o.status, o.stdout, o.stderr, want)
	}
}
