package formulate

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"workbench/bench/solve"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/solvers"
)

// DiffFormat names the format of [Diff].
const DiffFormat = "workbench.formulation-diff/v1"

// Diff compares two programs of one instance.
type Diff struct {
	Format   string  `json:"format"`
	Instance string  `json:"instance"`
	Sides    [2]Side `json:"sides"`
	// Groups and Families list those of either program, with sizes; a nil side lacks it.
	Groups   []GroupPair  `json:"groups"`
	Families []FamilyPair `json:"families"`
}

// Side is one of the programs: its relaxation, and itself within the limit.
type Side struct {
	Relaxation *Solution  `json:"relaxation"`
	Program    *Solution  `json:"program"`
	Presolved  *Presolved `json:"presolved"` // null: the backend does not report it
}

// GroupPair is the size of a constraint group in both.
type GroupPair struct {
	Name   string        `json:"name"`
	Source string        `json:"source"`
	Sides  [2]*GroupSize `json:"sides"`
}

// GroupSize is the size of a constraint group.
type GroupSize struct {
	Rows     int `json:"rows"`
	Nonzeros int `json:"nonzeros"`
}

// FamilyPair counts the columns of a family in both.
type FamilyPair struct {
	Name  string  `json:"name"`
	Sides [2]*int `json:"sides"`
}

// Built is a formulation and its program for the instance.
type Built struct {
	Formulation formulation.Formulation
	Program     *formulation.Program
}

// Compare solves the relaxations and the programs, one after the other, with the same options. If in is nil, the
// programs are those of files, with the given name.
func Compare(ctx context.Context, b solvers.Backend, name string, in *solve.Instance, both [2]Built, o solvers.Options) (*Diff, error) {
	d := &Diff{Format: DiffFormat, Instance: name, Groups: []GroupPair{}, Families: []FamilyPair{}}
	for side, x := range both {
		for _, relax := range []bool{true, false} {
			o.Relax = relax
			s, err := Solve(ctx, b, x.Formulation, in, x.Program, o, Wants{})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.Formulation.Name, err)
			}
			if relax {
				d.Sides[side].Relaxation = s
			} else {
				d.Sides[side].Program = s
			}
		}
		left, err := PresolvedBy(ctx, b, x.Program.Model)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.Formulation.Name, err)
		}
		d.Sides[side].Presolved = left
		d.sizes(side, x.Program.Model.Stats())
	}
	return d, nil
}

// sizes adds the groups and families of one side.
func (d *Diff) sizes(side int, stats *milp.Stats) {
	for _, g := range stats.Groups {
		k := 0
		for k < len(d.Groups) && d.Groups[k].Name != g.Name {
			k++
		}
		if k == len(d.Groups) {
			d.Groups = append(d.Groups, GroupPair{Name: g.Name, Source: g.Source})
		}
		d.Groups[k].Sides[side] = &GroupSize{g.Rows, g.Nonzeros}
	}
	for _, f := range stats.Families {
		k := 0
		for k < len(d.Families) && d.Families[k].Name != f.Name {
			k++
		}
		if k == len(d.Families) {
			d.Families = append(d.Families, FamilyPair{Name: f.Name})
		}
		n := f.Columns.Cols()
		d.Families[k].Sides[side] = &n
	}
}

// Text prints the comparison as text.
func (d *Diff) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(what string, of func(Side) string) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", what, of(d.Sides[0]), of(d.Sides[1]))
	}
	fmt.Fprintf(w, "on %s\n\n", d.Instance)
	line("", func(s Side) string { return s.Program.Formulation })
	line("promise", func(s Side) string { return s.Program.Promise })
	line("variables", func(s Side) string {
		return fmt.Sprintf("%d (%d integer)", s.Program.Size.Variables, s.Program.Size.Integers)
	})
	line("constraints", func(s Side) string { return fmt.Sprint(s.Program.Size.Constraints) })
	line("nonzeros", func(s Side) string { return fmt.Sprint(s.Program.Size.Nonzeros) })
	line("after presolve", func(s Side) string { return s.Presolved.String() })
	line("relaxation", func(s Side) string { return written(s.Relaxation.Objective) })
	line("  time", func(s Side) string { return fmt.Sprintf("%.3f s", s.Relaxation.Time) })
	line("objective", func(s Side) string { return written(s.Program.Objective) })
	line("bound", func(s Side) string { return written(s.Program.Bound) })
	line("verified plan", func(s Side) string { return written(s.Program.Plan) })
	line("status", func(s Side) string { return s.Program.Status })
	line("nodes", func(s Side) string { return fmt.Sprint(s.Program.Nodes) })
	line("  time", func(s Side) string { return fmt.Sprintf("%.3f s", s.Program.Time) })
	fmt.Fprintln(t, "\t\t")
	for _, f := range d.Families {
		fmt.Fprintf(t, "columns %s\t%s\t%s\n", f.Name, count(f.Sides[0]), count(f.Sides[1]))
	}
	for _, g := range d.Groups {
		fmt.Fprintf(t, "rows %s\t%s\t%s\n", g.Name, g.Sides[0], g.Sides[1])
	}
	return t.Flush()
}

func count(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func (g *GroupSize) String() string {
	if g == nil {
		return "-"
	}
	return platform.Count(g.Rows, "row") + ", " + platform.Count(g.Nonzeros, "nonzero")
}
