package results

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"workbench/bench/atomicfile"
	"workbench/bench/render/picture"
)

// PageName is the page's name in a folder.
const PageName = "index.html"

// WriteFolder writes the page, its figures as SVG and PNG, and the numbers of its
// tables and figures as CSV into dir, which it makes. Files of an earlier report
// stay where this one has none of their name.
func (r *Report) WriteFolder(dir string) error {
	if err := atomicfile.Folder(dir); err != nil {
		return err
	}
	write := func(name string, f func(io.Writer) error) error {
		var b bytes.Buffer
		if err := f(&b); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)
	}
	if err := write(PageName, r.WriteHTML); err != nil {
		return err
	}
	for _, t := range []struct {
		name  string
		table [][]string
	}{{"methods.csv", r.methodsTable()}, {"cases.csv", r.casesTable()}, {"failures.csv", r.failuresTable()}, {"runs.csv", r.runsTable()}} {
		if err := write(t.name, csvTable(t.table)); err != nil {
			return err
		}
	}
	return r.writeFigures(write)
}

// writeFigures draws all figures, which takes most of the time of a folder, on as
// many processors as there are.
func (r *Report) writeFigures(write func(string, func(io.Writer) error) error) error {
	var all []figure
	for _, p := range r.Problems {
		all = append(all, p.figures()...)
	}
	draw := func(f figure) error {
		for _, format := range picture.Formats {
			err := write(f.name+"."+format, func(w io.Writer) error { return f.figure.Write(w, format) })
			if err != nil && !errors.Is(err, picture.ErrEmpty) {
				return fmt.Errorf("figure %s: %w", f.name, err)
			}
		}
		return write(f.name+".csv", csvTable(points(f.figure)))
	}
	errs := make([]error, len(all))
	var next atomic.Int64
	var work sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= len(all) {
					return
				}
				errs[k] = draw(all[k])
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

func csvTable(lines [][]string) func(io.Writer) error {
	return func(w io.Writer) error { return csv.NewWriter(w).WriteAll(lines) }
}

func (r *Report) methodsTable() [][]string {
	out := [][]string{{
		"problem", "method", "kind", "runs", "plans", "proofs", "infeasible", "stopped", "no_plan", "failed", "cases_not_run",
		"gap_least", "gap_q1", "gap_median", "gap_q3", "gap_most", "ratio_to_best", "wins", "wins_alone", "bound_ratio", "time_mean", "par10",
		"certified", "claimed", "spread_cases", "spread_median", "spread_q3", "spread_most",
	}}
	for _, p := range r.Problems {
		for _, m := range p.Methods {
			q := m.Quantile
			row := cells(p.Name, m.Label, m.Kind, m.Runs, m.Plans, m.Proofs, m.Infeasible, m.Stopped, m.NoPlan, m.Failed, m.NotRun,
				q(0), q(0.25), q(0.5), q(0.75), q(1), m.ToBest, m.Wins, m.Alone, m.BoundRatio, m.MeanTime, m.PAR10, m.Certified, m.Claimed)
			if x := m.Spread; x != nil {
				row = append(row, cells(x.Cases, x.Median, x.Q3, x.Most)...)
			} else {
				row = append(row, "0", "", "", "")
			}
			out = append(out, row)
		}
	}
	return out
}

func (r *Report) casesTable() [][]string {
	out := [][]string{{
		"problem", "name", "sha256", "limits", "memory", "best_bound", "bound_by", "method", "outcome", "runs", "objective",
		"best_gap", "time",
	}}
	for _, p := range r.Problems {
		for _, c := range p.Cases {
			by := ""
			if c.Bound != nil {
				by = c.Bound.Result.Bound.By
			}
			for k, cell := range c.Cells {
				out = append(out, cells(p.Name, c.Instance, c.Key.SHA256, c.Limits, c.Key.Memory, c.bound(), by, p.Methods[k].Label,
					cell.Outcome, len(cell.Runs), cell.Objective, cell.Gap, cell.Time))
			}
		}
	}
	return out
}

func (r *Report) failuresTable() [][]string {
	out := [][]string{{"problem", "method", "reason", "name", "limits", "detail", "command"}}
	for _, p := range r.Problems {
		for _, f := range p.Failures {
			for _, runs := range f.Runs {
				out = append(out, []string{p.Name, f.Method.Label, f.Reason, runs.Case.Instance, runs.Case.Limits, runs.Detail, runs.Command()})
			}
		}
	}
	return out
}

func (r *Report) runsTable() [][]string {
	out := [][]string{{
		"problem", "method", "name", "limits", "memory", "seed", "repetition", "outcome", "objective", "bound", "bound_proof",
		"claimed", "best_gap", "ended", "time", "cpu_time", "peak_memory", "peak_rss", "detail", "command",
	}}
	for _, x := range r.runs {
		n := x.numbers()
		var rss *int64
		if x.PeakRSS > 0 {
			rss = &x.PeakRSS
		}
		out = append(out, cells(x.Problem.Name, x.Method.Label, x.Case.Instance, x.Case.Limits, x.Task.Memory, x.Task.Seed, x.Task.Repetition,
			x.Outcome(), n.objective, n.bound, n.proof, n.claimed, x.Gap, n.ended, n.time, n.cpu, n.peak, rss, x.Detail, x.Command()))
	}
	return out
}

// points are the numbers of a figure.
func points(f *picture.Figure) [][]string {
	out := [][]string{{"series", f.X, f.Y}}
	for _, s := range f.Series {
		for i := range s.X {
			out = append(out, cells(s.Name, s.X[i], s.Y[i]))
		}
	}
	if f.Bound != nil {
		for i := range f.Bound.X {
			out = append(out, cells(f.Bound.Name, f.Bound.X[i], f.Bound.Y[i]))
		}
	}
	return out
}

// slug turns a name into one for files.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := strings.Trim(b.String(), "-")
	return s[:min(len(s), 80)]
}

// unique returns name, with a number behind it where it was given before.
func unique(given map[string]int, name string) string {
	given[name]++
	if n := given[name]; n > 1 {
		return unique(given, name+"-"+strconv.Itoa(n))
	}
	return name
}
