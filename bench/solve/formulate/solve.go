// Package formulate supports the development of formulations: it solves one program unchanged, without heuristics,
// and compares two. Its output is the uncertified result of the model, in the units of the problem.
package formulate

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"workbench/bench/solve"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/model/verify"
	"workbench/solvers"
)

// Format names the format of [Solution].
const Format = "workbench.formulation-solution/v1"

// Size is the size of a model.
type Size struct {
	Variables   int `json:"variables"`
	Integers    int `json:"integers"`
	Constraints int `json:"constraints"`
	Nonzeros    int `json:"nonzeros"`
}

// SizeOf returns the size of a model.
func SizeOf(m *milp.Model) Size {
	return Size{m.NumCols(), m.NumIntegers(), m.NumRows(), m.NumNonzeros()}
}

func (s Size) String() string {
	return fmt.Sprintf("%s (%d integer), %s, %s", platform.Count(s.Variables, "variable"), s.Integers,
		platform.Count(s.Constraints, "constraint"), platform.Count(s.Nonzeros, "nonzero"))
}

// Solution is the uncertified result of a backend for a program without a start; only the plan is verified.
// Numbers are in the units of the problem; null: none.
type Solution struct {
	Format      string `json:"format"`
	Formulation string `json:"formulation"`
	Promise     string `json:"promise"`
	Instance    string `json:"instance"`
	Backend     string `json:"backend"`
	Relaxed     bool   `json:"relaxed"` // the LP relaxation
	Size        Size   `json:"size"`
	Status      string `json:"status"`
	// Proof names a proof of the status that does not rely on the backend; null: none.
	Proof      *string  `json:"proof"`
	Stopped    string   `json:"stopped,omitempty"` // the limit
	Unit       string   `json:"unit,omitempty"`    // of objective, bound and plan
	Objective  *float64 `json:"objective"`
	Bound      *float64 `json:"bound"`
	Gap        *float64 `json:"gap"` // of the objective to the bound
	Nodes      int64    `json:"nodes"`
	Iterations int64    `json:"iterations"`
	Time       float64  `json:"time"` // seconds
	// Plan is the objective of the decoded plan, replayed by the verifier, and PlanGap its gap to the bound.
	// PlanError says why there is no plan, "" if the formulation has none.
	Plan      *float64 `json:"plan"`
	PlanGap   *float64 `json:"plan_gap,omitempty"`
	PlanError string   `json:"plan_error,omitempty"`
	// Columns holds the nonzero columns and, for a relaxation, nonzero duals of rows and reduced costs, by name,
	// in the model's own units.
	Columns map[string]float64 `json:"columns,omitempty"`
	// Solutions are the successive incumbents, if requested.
	Solutions []Found            `json:"solutions,omitempty"`
	Duals     map[string]float64 `json:"duals,omitempty"`
	Reduced   map[string]float64 `json:"reduced_costs,omitempty"`
	Note      string             `json:"note,omitempty"`
}

// Found is an incumbent of the search.
type Found struct {
	Objective *float64 `json:"objective"`
	Plan      *float64 `json:"plan"` // the objective of its plan, replayed; nil: none
}

// Wants selects what to report of a solution in addition to its objective.
type Wants struct {
	Values    bool // of columns, and the backend's duals
	Solutions bool // successive incumbents
}

// Solve solves a program.
func Solve(ctx context.Context, b solvers.Backend, f formulation.Formulation, in *solve.Instance, p *formulation.Program, o solvers.Options,
	wants Wants,
) (*Solution, error) {
	var points [][]float64
	if wants.Solutions {
		o.OnProgress = func(q solvers.Progress) {
			if q.X != nil {
				points = append(points, q.X)
			}
		}
	}
	r, err := b.Solve(ctx, p.Model, o)
	if err != nil {
		return nil, err
	}
	name := ""
	if in != nil {
		name = in.Name
	}
	s := &Solution{
		Format: Format, Formulation: f.Name, Promise: f.Promise.String(), Instance: name, Backend: r.Backend, Relaxed: o.Relax,
		Size: SizeOf(p.Model), Status: r.Status.String(), Nodes: r.Nodes, Iterations: r.Iterations, Time: r.Wall.Seconds(), Note: r.Note,
	}
	if r.Proof != "" {
		s.Proof = &r.Proof
	}
	if r.Stop != solvers.NotStopped {
		s.Stopped = r.Stop.String()
	}
	if x, ok := r.Objective(); ok {
		s.Objective = number(p.Objective(x))
		s.Gap = number(r.Gap())
	}
	s.Bound = number(p.Objective(r.Bound))
	x, ok := r.Solution()
	if ok && !o.Relax && p.Plan != nil {
		if s.Plan, s.PlanError = decode(in, p, x); s.Plan != nil && s.Bound != nil {
			s.PlanGap = number(platform.Excess(*s.Plan, *s.Bound))
		}
	}
	if ok && wants.Solutions && (len(points) == 0 || p.Model.Objective(points[len(points)-1]) != r.Obj) {
		points = append(points, x)
	}
	for _, x := range points {
		found := Found{Objective: number(p.Objective(p.Model.Objective(x)))}
		if !o.Relax && p.Plan != nil {
			found.Plan, _ = decode(in, p, x) // the reason is reported for the last one
		}
		s.Solutions = append(s.Solutions, found)
	}
	if wants.Values && ok {
		s.Columns = named(p.Model.ColNames(), x)
		if r.Dual != nil {
			s.Duals, s.Reduced = named(p.Model.RowNames(), r.Dual.Row), named(p.Model.ColNames(), r.Dual.Reduced)
		}
	}
	return s, nil
}

// decode converts a solution to a plan and replays it. It returns the objective, or why there is no plan.
func decode(in *solve.Instance, p *formulation.Program, x []float64) (objective *float64, why string) {
	made, err := p.Plan(x)
	if err != nil {
		return nil, err.Error()
	}
	report, err := verify.Replay(in.Instance, made)
	switch {
	case err != nil:
		return nil, err.Error()
	case !report.Valid():
		return nil, fmt.Sprintf("breaks %s: %s", platform.Count(len(report.Violations), "rule"), report.Violations[0].Detail)
	}
	return &report.Makespan, ""
}

// number returns a pointer to a finite number, else nil: JSON has no others.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// named returns the nonzero numbers by name.
func named(names []string, x []float64) map[string]float64 {
	m := map[string]float64{}
	for k, v := range x {
		if v != 0 {
			m[names[k]] = v
		}
	}
	return m
}

// Text prints a solution as text.
func (s *Solution) Text(w io.Writer) {
	kind := ""
	if s.Relaxed {
		kind = ", LP relaxation"
	}
	fmt.Fprintf(w, "%s (%s)%s on %s, by %s\n", s.Formulation, s.Promise, kind, s.Instance, s.Backend)
	fmt.Fprintf(w, "  size        %s\n", s.Size)
	status := s.Status
	switch {
	case s.Stopped != "":
		status += ", stopped by " + s.Stopped
	case s.Proof != nil:
		status += ", proved by " + *s.Proof
	default:
		status += " according to " + s.Backend + ", not certified"
	}
	fmt.Fprintf(w, "  status      %s\n", status)
	unit := ""
	if s.Unit != "" && s.Unit != "1" {
		unit = " " + s.Unit
	}
	fmt.Fprintf(w, "  objective   %s%s\n", written(s.Objective), unit)
	fmt.Fprintf(w, "  bound       %s%s (not certified)\n", written(s.Bound), unit)
	switch {
	case s.PlanGap != nil:
		fmt.Fprintf(w, "  gap         %.4f %% of the plan to this bound\n", 100**s.PlanGap)
	case s.Gap != nil:
		fmt.Fprintf(w, "  gap         %.4f %% of the objective to this bound\n", 100**s.Gap)
	}
	switch {
	case s.Plan != nil:
		fmt.Fprintf(w, "  plan        %s%s, verified by replay\n", written(s.Plan), unit)
	case s.PlanError != "":
		fmt.Fprintf(w, "  plan        none: %s\n", strings.ReplaceAll(s.PlanError, "\n", " "))
	}
	for k, x := range s.Solutions {
		fmt.Fprintf(w, "  solution %-3d%s, plan %s\n", k+1, written(x.Objective), written(x.Plan))
	}
	fmt.Fprintf(w, "  nodes       %d, iterations %d\n", s.Nodes, s.Iterations)
	fmt.Fprintf(w, "  time        %s\n", platform.FormatSeconds(s.Time))
	if s.Note != "" {
		fmt.Fprintf(w, "  note        %s\n", s.Note)
	}
}

// written formats an objective with enough digits to distinguish two of them.
func written(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.9g", *x)
}
