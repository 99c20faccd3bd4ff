package main

import (
	"bytes"
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escapement-go/escapement/examples/internal/urllist"
)

func TestMisuse(t *testing.T) {
	t.Parallel()
	api := newRemote(t, 16, nil, func(int, *http.Request) { t.Error("something was called") })
	url := api.list[0]
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	lines := file("lines.txt", strings.Join(api.list, "\n")+"\nftp://example.org\n"+url+"\n")
	table := file("table.CSV", "id,url\n1,"+url+"\n\"2\n\",example.org/x\n3,"+url+"\n")
	other := file("other.csv", "id,link\n1,"+url+"\n")
	ragged := file("ragged.csv", "id,url\n1,"+url+"\n2\n")
	header := file("header.csv", "id,url\n")
	absent := filepath.Join(dir, "absent")
	db := filepath.Join(dir, "pages.db")
	list := " (-h lists the flags)"
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"limit", "", []string{"-limit", "100"}, `invalid value "100" for flag -limit: pace: ParseRate: a rate must be written as "100/s", "5/10s" or "unlimited", got "100"` + list},
		{"no limit", "", []string{"-limit", "unlimited"}, `-limit: must be a number in a span such as 100/1s, got unlimited` + list},
		{"guard", "", []string{"-guard", "-1s"}, `-guard: must not be negative, got -1s` + list},
		{"in flight", "", []string{"-in-flight", "0"}, `-in-flight: must be from 1 to 10000, got 0` + list},
		{"tries", "", []string{"-tries", "0"}, `-tries: must be at least 1, got 0` + list},
		{"timeout", "", []string{"-timeout", "0s"}, `-timeout: must be positive, got 0s` + list},
		{"batch", "", []string{"-batch", "0"}, `-batch: must be at least 1, got 0` + list},
		{"n", "", []string{"-n", "0"}, `-n: must be from 1 to 10000000, got 0` + list},
		{"db", "", []string{"-db", ""}, `-db: must be the name of a file, got ""` + list},
		{"unknown flag", "", []string{"-rate", "1/s"}, `flag provided but not defined: -rate` + list},
		{"two lists", "", []string{"a", "b"}, `there must be one list at most, after the flags, got "a" and "b"` + list},
		{"n with a list", "", []string{"-n", "3", lines}, `-n: must not be given together with a list, got "` + lines + `"` + list},
		{"calm with a list", url, []string{"-calm", "-"}, `-calm: must not be given together with a list, got "-"` + list},
		{"column without a list", "", []string{"-column", "url"}, `-column: must be given together with a list, got "url" and none` + list},
		{"no file", "", []string{absent}, `open ` + absent + `: no such file or directory`},
		{"a folder", "", []string{dir}, dir + `: read ` + dir + `: is a directory`},
		{"bad URL in a file", "", []string{lines}, lines + `:17: a URL must begin with http:// or https://, got "ftp://example.org"`},
		{"bad URL in a CSV", "", []string{table}, table + `:4: a URL must begin with http:// or https://, got "example.org/x"`},
		{"no column", "", []string{other}, other + `: there must be a column "url", got ["id" "link"]`},
		{"short record", "", []string{ragged}, ragged + `: record on line 3: wrong number of fields`},
		{"header only", "", []string{header}, header + `: there must be at least one URL, got none`},
		{"empty CSV", "", []string{"-column", "url", "-"}, `standard input: there must be at least one URL, got none`},
		{"bad CSV", "\"", []string{"-column", "url", "-"}, `standard input: parse error on line 1, column 2: extraneous or missing " in quoted-field`},
		{"no host", "# x\n\nhttp://:80/x", []string{"-"}, `standard input:3: a URL must name a host, got "http://:80/x"`},
		{"bad port", "http://example.org:x/", []string{"-"}, `standard input:1: a URL must be well formed (invalid port ":x" after host), got "http://example.org:x/"`},
		{"long line", "http://example.org/" + strings.Repeat("x", urllist.LongestLine), []string{"-"}, `standard input:1: a line must be shorter than 1 MiB`},
		{"nothing to read", "# nothing", []string{"-"}, `standard input: there must be at least one URL, got none`},
		{"nothing to print", "", []string{"-print"}, `-print: there must be a database at "` + db + `": stat ` + db + `: no such file or directory`},
		{"no place for a database", url, []string{"-db", filepath.Join(absent, "x"), "-"}, filepath.Join(absent, "x") + `: unable to open database file (14)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := play(t, t.Context(), c.stdin, append([]string{"-db", db}, c.args...)...)
			if want := "pipeline: " + c.want + "\n"; o.status != misuse || o.stderr != want || o.stdout != "" {
				t.Errorf("status %d, on standard error\n%son standard output %q; want 2 and\n%s", o.status, o.stderr, o.stdout, want)
			}
			if _, err := os.Stat(db); err == nil || o.api != nil {
				t.Error("a database was made, or an API")
			}
		})
	}
}

// A database that the program can't go on with is left as it is.
func TestRefusedDatabase(t *testing.T) {
	t.Parallel()
	api := newRemote(t, 3, nil, nil)
	for _, c := range []struct {
		name string
		sql  string // what it is made of, if it is not one of ours
		list []string
		want string
	}{
		{"of another program", "CREATE TABLE pages (url)", api.list, "the database must be new or one of this program (application_id 1702060849), got another (0, with 1 tables and indexes)"},
		{"of another program that says so", "PRAGMA application_id = 7", api.list, "the database must be new or one of this program (application_id 1702060849), got another (7, with 0 tables and indexes)"},
		{"of a later version", "PRAGMA application_id = 1702060849; PRAGMA user_version = 2", api.list, "the version of the schema must be 1, got 2"},
		{"of another list", "", []string{api.list[0], api.list[2], api.list[1]}, "the rows must be of this list, whose URL 2 is " + api.list[2] + ", got a row of " + api.list[1]},
		{"of a longer list", "", api.list[:2], "the rows must be of this list, which has 2 URLs, got row 3, of " + api.list[2]},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "a?b#c%20.db") // a name like any other
			if c.sql == "" {
				if o := play(t, t.Context(), "", "-db", db, api.file); o.status != ok {
					t.Fatalf("status %d: %s", o.status, o.stderr)
				}
			} else {
				execSQL(t, db, c.sql)
			}
			before, err := os.ReadFile(db)
			if err != nil {
				t.Fatal(err)
			}
			calls := len(api.Log())
			o := play(t, t.Context(), strings.Join(c.list, "\n"), "-db", db, "-again", "-")
			if want := "pipeline: " + db + ": " + c.want + "\n"; o.status != misuse || o.stderr != want || o.stdout != "" {
				t.Errorf("status %d, on standard error\n%son standard output %q; want 2 and\n%s", o.status, o.stderr, o.stdout, want)
			}
			if after, err := os.ReadFile(db); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file has changed, or can't be read: %v", err)
			}
			if len(api.Log()) != calls {
				t.Error("something was called")
			}
		})
	}
	t.Run("no database", func(t *testing.T) {
		o := play(t, t.Context(), "", "-db", api.file, "-n", "1")
		if want := "pipeline: " + api.file + ": file is not a database (26)\n"; o.status != misuse || o.stderr != want {
			t.Errorf("status %d, %q; want 2 and %q", o.status, o.stderr, want)
		}
	})
	t.Run("in use", func(t *testing.T) {
		db := newDB(t)
		s, err := openStore(db)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		o := play(t, t.Context(), "", "-db", db, "-n", "1")
		if want := "pipeline: " + db + ": must not be in use by another program\n"; o.status != misuse || o.stderr != want {
			t.Errorf("status %d, %q; want 2 and %q", o.status, o.stderr, want)
		}
	})
}

// execSQL makes a database that is none of ours. The file has the same name, escaped.
func execSQL(t *testing.T, name, text string) {
	t.Helper()
	plain := filepath.Join(filepath.Dir(name), "plain")
	db, err := sql.Open("sqlite", plain)
	if err == nil {
		_, err = db.Exec(text)
	}
	if err == nil {
		err = db.Close()
	}
	if err == nil {
		err = os.Rename(plain, name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, column string
		want               string // joined by spaces
	}{
		{"the first column", "url,id\nhttp://a/1,1\nhttp://a/2,2\n", "url", "http://a/1 http://a/2"},
		{"another column", "id,page\n1, http://a/1 \n\n2,\"http://a/2?x=\"\"1,2\"\"\"\n", "page", `http://a/1 http://a/2?x="1,2"`},
		{"from a spreadsheet", "\ufeffurl\r\nhttp://a/1\r\n", "url", "http://a/1"},
		{"the same twice", "url\nhttp://a/1\nhttp://a/1\n", "url", "http://a/1 http://a/1"},
	} {
		got, err := parseCSV(strings.NewReader(c.text), c.name, c.column)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	o := play(t, t.Context(), "", "-h")
	if o.status != ok || o.stderr != "" {
		t.Errorf("status %d, on standard error %q", o.status, o.stderr)
	}
	for _, want := range []string{"-limit calls", "(default 100/s)", "-db file", `(default "pipeline.db")`, "Exit status: 0"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("the help does not contain %q:\n%s", want, o.stdout)
		}
	}
}
