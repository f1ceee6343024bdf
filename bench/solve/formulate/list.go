package formulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/render"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/solvers"
)

// Names of formats.
const (
	EntryFormat       = "workbench.formulation/v1"
	ModelFormat       = "workbench.formulation-model/v1"
	StatsFormat       = "workbench.formulation-stats/v1"
	CheckFormat       = "workbench.formulation-check/v1"
	ExplanationFormat = "workbench.formulation-explanation/v1"
)

// Entry is an entry of formulation list.
type Entry struct {
	Format  string   `json:"format"`
	Name    string   `json:"name"`
	Problem string   `json:"problem"`
	Title   string   `json:"title"`
	Source  string   `json:"source"`
	Promise string   `json:"promise"`
	Extra   []string `json:"extra_groups"`
}

// Entries lists formulations.
func Entries(list []formulation.Formulation) (entries []Entry) {
	for _, f := range list {
		entries = append(entries, Entry{EntryFormat, f.Name, f.Problem, f.Title, f.Source, f.Promise.String(), append([]string{}, f.Extra...)})
	}
	return entries
}

// PrintEntries prints the list as a table.
func PrintEntries(w io.Writer, entries []Entry) {
	t := render.Table(w, table.Row{"formulation", "problem", "promise", "what it is", "source", "groups beyond the source"})
	for _, e := range entries {
		t.AppendRow(table.Row{
			e.Name, e.Problem, e.Promise, render.Wrap(e.Title, 34), render.Wrap(e.Source, 22),
			render.Wrap(strings.Join(e.Extra, ", "), 26),
		})
	}
	t.Render()
}

// Model is the output of formulation show without the rows.
type Model struct {
	Format   string           `json:"format"`
	Name     string           `json:"name"`
	Instance string           `json:"instance"`
	Groups   []milp.GroupInfo `json:"groups"`
}

// ModelOf describes the model of a formulation.
func ModelOf(name, instance string, m *milp.Model) Model {
	return Model{ModelFormat, name, instance, m.Groups()}
}

// Stats are the statistics of a model, and of its presolved form.
type Stats struct {
	*milp.Stats
	Presolved *Presolved `json:"presolved"` // null: the backend does not report it
}

// StatsOf returns the statistics of a model, and its size after the presolve of b.
func StatsOf(ctx context.Context, b solvers.Backend, m *milp.Model) (Stats, error) {
	left, err := PresolvedBy(ctx, b, m)
	return Stats{m.Stats(), left}, err
}

// Text prints statistics as text.
func (s Stats) Text(w io.Writer) {
	fmt.Fprint(w, s.Stats)
	if left := s.Presolved; left != nil {
		fmt.Fprintf(w, "\nafter presolve by %s: %s\n", left.By, left)
	}
}

// Presolved is the size of a model after presolve.
type Presolved struct {
	By          string `json:"by"`
	Variables   int    `json:"variables"`
	Constraints int    `json:"constraints"`
	Nonzeros    int    `json:"nonzeros"`
}

// PresolvedBy returns the size of a model after the presolve of a backend, nil if the backend does not report it.
func PresolvedBy(ctx context.Context, b solvers.Backend, m *milp.Model) (*Presolved, error) {
	size, err := solvers.Presolve(ctx, b, m)
	if errors.Is(err, solvers.ErrUnsupported) {
		return nil, nil
	}
	return &Presolved{b.Name(), size.Cols, size.Rows, size.Nonzeros}, err
}

func (p *Presolved) String() string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%s, %s, %s", platform.Count(p.Variables, "variable"), platform.Count(p.Constraints, "constraint"),
		platform.Count(p.Nonzeros, "nonzero"))
}

// Explanation explains the infeasibility of a model, with names.
type Explanation struct {
	Format string `json:"format"`
	Status string `json:"status"` // infeasible, feasible, or no solution: not decided
	By     string `json:"by"`
	// Minimal reports that the rest is feasible whichever row is left out. Least reports that no smaller relief
	// exists.
	Minimal bool         `json:"minimal"`
	Rows    []NamedLimit `json:"rows"`
	Bounds  []NamedLimit `json:"bounds"`
	Relief  []NamedLimit `json:"relief"`
	Least   bool         `json:"least"`
	Probes  int          `json:"probes"`
}

// NamedLimit is a side of a row or a bound of a column. Group and Source are those of a row; Amount is the relief
// that the side needs.
type NamedLimit struct {
	Name   string   `json:"name"`
	Side   string   `json:"side"`
	Group  string   `json:"group,omitempty"`
	Source string   `json:"source,omitempty"`
	Amount *float64 `json:"amount,omitempty"`
}

// ExplanationOf replaces the indices of an explanation by names.
func ExplanationOf(m *milp.Model, e *solvers.Explanation) *Explanation {
	out := &Explanation{
		Format: ExplanationFormat, Status: e.Status.String(), By: e.By, Least: e.Least, Probes: e.Probes, Rows: []NamedLimit{},
		Bounds: []NamedLimit{}, Relief: []NamedLimit{},
	}
	groups := m.Groups()
	row := func(l milp.Limit) NamedLimit {
		g := groups[m.GroupOf(l.Index)]
		return NamedLimit{Name: m.Row(l.Index).Name(), Side: l.Side.String(), Group: g.Name, Source: g.Source}
	}
	if e.Conflict != nil {
		out.Minimal = e.Conflict.Minimal
		for _, l := range e.Conflict.Rows {
			out.Rows = append(out.Rows, row(l))
		}
		for _, l := range e.Conflict.Bounds {
			out.Bounds = append(out.Bounds, NamedLimit{Name: m.Col(l.Index).Name(), Side: l.Side.String()})
		}
	}
	for _, r := range e.Relief {
		l := row(r.Side)
		l.Amount = number(r.Amount)
		out.Relief = append(out.Relief, l)
	}
	return out
}
