package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"workbench/bench/sweep"
)

// indexVersion is of the tables below: an index of another version is made
// again.
const indexVersion = "1"

// schema has one row a task, with everything a query may ask for; json is the
// line itself without its checksum. Times are in seconds, sizes in bytes.
const schema = `
CREATE TABLE source (version TEXT, sweep TEXT, files TEXT);
CREATE TABLE rows (
  id TEXT PRIMARY KEY, problem TEXT, method TEXT, kind TEXT, instance TEXT, name TEXT, sha256 TEXT,
  memory REAL, memory_name TEXT, bandwidth REAL, processors INTEGER, weight_copies INTEGER, memory_model TEXT,
  slots INTEGER, backend TEXT, threads INTEGER, time_limit REAL, gap_limit REAL, seed INTEGER, repetition INTEGER,
  version TEXT, environment TEXT, worker TEXT, attempt INTEGER, started TEXT, finished TEXT,
  status TEXT, error TEXT, note TEXT, objective REAL, bound REAL, bound_by TEXT, own_bound REAL, gap REAL,
  peak_memory REAL, throughput REAL, wall_time REAL, cpu_time REAL, nodes INTEGER, peak_rss INTEGER,
  failure TEXT, detail TEXT, plan TEXT, json TEXT
) WITHOUT ROWID;
CREATE INDEX rows_case ON rows (problem, name, memory_name, method);
CREATE TABLE environments (
  digest TEXT PRIMARY KEY, version TEXT, go TEXT, system TEXT, cpu TEXT, cores INTEGER, memory INTEGER,
  isolated INTEGER, jobs INTEGER, backends TEXT
) WITHOUT ROWID;
`

// Index opens the SQLite index of the store in dir, and makes it again if the
// rows have changed since: it holds nothing that is not in them. It is for
// reading; other processes may have it open, too.
func Index(ctx context.Context, dir string) (*sql.DB, error) {
	name := filepath.Join(dir, indexName)
	files, err := fingerprint(dir)
	if err != nil {
		return nil, err
	}
	if db, err := openIndex(name); err == nil {
		var version, seen string
		err := db.QueryRowContext(ctx, "SELECT version, files FROM source").Scan(&version, &seen)
		if err == nil && version == indexVersion && seen == files {
			return db, nil
		}
		if err := db.Close(); err != nil {
			return nil, err
		}
	}
	if err := buildIndex(ctx, dir, name, files); err != nil {
		return nil, fmt.Errorf("index %s: %w", name, err)
	}
	return openIndex(name)
}

func openIndex(name string) (*sql.DB, error) {
	if _, err := os.Stat(name); err != nil {
		return nil, err
	}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: name}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(5000)")
}

// fingerprint is of the files of rows: names, sizes and times.
func fingerprint(dir string) (string, error) {
	files, err := rowFiles(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %d %d\n", filepath.Base(file), info.Size(), info.ModTime().UnixNano())
	}
	return b.String(), nil
}

// buildIndex makes the index in a file of its own, which then takes the name:
// who has the old one open keeps it.
func buildIndex(ctx context.Context, dir, name, files string) (err error) {
	c, err := Read(dir)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".index-*")
	if err != nil {
		return err
	}
	temporary := f.Name()
	defer os.Remove(temporary)
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: temporary}).EscapedPath()+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		return err
	}
	if err := errors.Join(fill(ctx, db, c, files), db.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}

func fill(ctx context.Context, db *sql.DB, c *Contents, files string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to undo
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO source VALUES (?, ?, ?)", indexVersion, c.Sweep, files); err != nil {
		return err
	}
	for _, e := range c.Environments {
		var backends []string
		for name, version := range e.Backends {
			backends = append(backends, name+" "+version)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO environments VALUES (?,?,?,?,?,?,?,?,?,?)",
			e.Digest, e.Version, e.Go, e.System, e.CPU, e.Cores, e.Memory, e.Isolated, e.Jobs, strings.Join(backends, ", ")); err != nil {
			return err
		}
	}
	var probe []any
	insert, err := tx.PrepareContext(ctx, "INSERT INTO rows VALUES ("+strings.TrimSuffix(strings.Repeat("?,", columns), ",")+")")
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, r := range c.Rows {
		if probe, err = values(probe[:0], r); err != nil {
			return err
		}
		if _, err := insert.ExecContext(ctx, probe...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// columns is the number of columns of table rows.
const columns = 44

// values appends the columns of a row.
func values(out []any, r *sweep.Row) ([]any, error) {
	text, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	t := &r.Task
	var kind, name, status, message, note, boundBy, failure, detail any
	var objective, bound, own, gap, peak, throughput, wall, cpu, nodes any
	if x := r.Result; x != nil {
		kind, name, status, wall, cpu = string(x.Kind), x.Instance.Name, string(x.Status), x.WallTime, x.CPUTime
		message, note = orNull(x.Error), orNull(x.Note)
		objective, gap, peak, throughput = pointer(x.Objective), pointer(x.Gap), pointer(x.PeakMemory), pointer(x.Throughput)
		if x.Bound != nil {
			bound, boundBy = x.Bound.Value, x.Bound.By
		}
		if x.OwnBound != nil {
			own = x.OwnBound.Value
		}
		if x.Nodes != nil {
			nodes = *x.Nodes
		}
	}
	if f := r.Failure; f != nil {
		failure, detail = f.Reason, f.Detail
	}
	return append(
		out, r.ID, t.Problem, t.Method, kind, t.Instance, name, t.SHA256,
		t.Memory, t.MemoryName, t.Bandwidth, t.Processors, t.WeightCopies, t.MemoryModel,
		t.Slots, t.Backend, t.Threads, t.TimeLimit, t.Gap, t.Seed, t.Repetition,
		t.Version, r.Environment, r.Worker, r.Attempt, r.Started.Format(time.RFC3339Nano), r.Finished.Format(time.RFC3339Nano),
		status, message, note, objective, bound, boundBy, own, gap,
		peak, throughput, wall, cpu, nodes, r.PeakRSS,
		failure, detail, orNull(r.Plan), string(text),
	), nil
}

func pointer(x *float64) any {
	if x == nil {
		return nil
	}
	return *x
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
