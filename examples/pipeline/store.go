package main

import (
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// schema is the only table of the database.
const schema = `CREATE TABLE pages (
	position INTEGER PRIMARY KEY, -- in the list, from 1
	url      TEXT NOT NULL,
	status   INTEGER NOT NULL,    -- of HTTP; 0: there was no answer
	tries    INTEGER NOT NULL,    -- calls that it took
	body     TEXT,                -- JSON; null if there is an error
	error    TEXT                 -- null: none
) STRICT`

// What tells our databases from others: "esc1" in ASCII, and the version of the schema.
const (
	applicationID = 0x65736331
	schemaVersion = 1
)

// row is a row of the table.
type row struct {
	item
	status int
	tries  int
	body   string
	err    string // "": none, and there is a body
}

// store is the database. It is locked for other programs until it is closed.
type store struct {
	db   *sql.DB
	name string
	made bool   // just now, and not by an earlier run
	rows []bool // which items have had a row since before this run, by position; rows[0] is none

	written      atomic.Int64 // rows, by this run
	failed       atomic.Int64 // of these, those with an error
	transactions atomic.Int64
}

// openStore opens the database, and makes it if there is none.
func openStore(name string) (*store, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	if path = filepath.ToSlash(path); path[0] != '/' {
		path = "/" + path // of a volume
	}
	// As a URL, so that no character of the name means anything. In this mode the connection, which
	// is the only one, keeps its lock after its first transaction.
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_txlock=exclusive&_pragma=locking_mode(exclusive)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &store{db: db, name: name}
	if err := s.transact(context.Background(), s.prepare); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// prepare sees to it that the database is one of ours. Any other is left as it is.
func (s *store) prepare(ctx context.Context, tx *sql.Tx) error {
	var id, version, tables int
	err := tx.QueryRowContext(ctx, `SELECT
		(SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`).Scan(&id, &version, &tables)
	switch {
	case err != nil:
		return err
	case id == applicationID && version == schemaVersion:
		return nil
	case id == applicationID:
		return fmt.Errorf("the version of the schema must be %d, got %d", schemaVersion, version)
	case id != 0 || version != 0 || tables != 0:
		return fmt.Errorf("the database must be new or one of this program (application_id %d), got another (%d, with %d tables and indexes)",
			applicationID, id, tables)
	}
	s.made = true
	_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; %s", applicationID, schemaVersion, schema))
	return err
}

// load finds out which items of the list have a row. Rows with an error are removed first, if they
// are to be fetched again. A row of another list is an error that names it; nothing has been removed
// then.
func (s *store) load(list []string, again bool) error {
	s.rows = make([]bool, len(list)+1)
	return s.transact(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT position, url, error IS NOT NULL FROM pages ORDER BY position")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var it item
			var failed bool
			switch err := rows.Scan(&it.position, &it.url, &failed); {
			case err != nil:
				return err
			case it.position < 1 || it.position > len(list):
				return fmt.Errorf("the rows must be of this list, which has %d URLs, got row %d, of %s", len(list), it.position, it.url)
			case list[it.position-1] != it.url:
				return fmt.Errorf("the rows must be of this list, whose URL %d is %s, got a row of %s", it.position, list[it.position-1], it.url)
			}
			s.rows[it.position] = !failed || !again
		}
		if err := rows.Err(); err != nil || !again {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM pages WHERE error IS NOT NULL")
		return err
	})
}

// has reports whether the item at the position has had a row since before this run.
func (s *store) has(position int) bool { return s.rows[position] }

// before returns how many items have.
func (s *store) before() (n int) {
	for _, has := range s.rows {
		if has {
			n++
		}
	}
	return n
}

// write writes the rows, all of them or none.
func (s *store) write(ctx context.Context, batch []row) error {
	failed := 0
	err := s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, "INSERT INTO pages (position, url, status, tries, body, error) VALUES (?, ?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		defer insert.Close()
		for _, r := range batch {
			bad := r.err != ""
			if bad {
				failed++
			}
			_, err := insert.ExecContext(ctx, r.position, r.url, r.status, r.tries,
				sql.NullString{String: r.body, Valid: !bad}, sql.NullString{String: r.err, Valid: bad})
			if err != nil {
				return fmt.Errorf("writing row %d: %w", r.position, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.written.Add(int64(len(batch)))
	s.failed.Add(int64(failed))
	s.transactions.Add(1)
	return nil
}

// print prints the rows as a CSV.
func (s *store) print(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"position", "url", "status", "tries", "body", "error"}) // Flush has the error
	err := s.transact(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT position, url, status, tries, ifnull(body, ''), ifnull(error, '') FROM pages ORDER BY position")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r row
			if err := rows.Scan(&r.position, &r.url, &r.status, &r.tries, &r.body, &r.err); err != nil {
				return err
			}
			out.Write([]string{strconv.Itoa(r.position), r.url, strconv.Itoa(r.status), strconv.Itoa(r.tries), r.body, r.err})
		}
		return rows.Err()
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// transact does all of f, or nothing. Errors name the database.
func (s *store) transact(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err == nil {
		defer tx.Rollback() // does nothing after Commit
		if err = f(ctx, tx); err == nil {
			err = tx.Commit()
		}
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_BUSY {
		err = errors.New("must not be in use by another program")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// close gives the lock back.
func (s *store) close() error { return s.db.Close() }
