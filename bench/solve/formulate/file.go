package formulate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"workbench/bench/solve"
	"workbench/ilp/certify"
	"workbench/ilp/formulation"
	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/solvers"
)

// FileFormat names the format of [FileSolution].
const FileFormat = "workbench.model-solution/v1"

// fileFormulation and fileProblem are the formulation and the problem in certificates of models from files.
const fileFormulation, fileProblem = "file", "milp"

// File is a model read from a file.
type File struct {
	Name   string // of the file, without its folder
	SHA256 string // of the file
	Model  *milp.Model
}

// OpenFile reads a model. Errors are the user's.
func OpenFile(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, solve.InputError(err)
	}
	m, err := milp.OpenFile(path)
	if err != nil {
		return nil, solve.InputError(err)
	}
	sum := sha256.Sum256(text)
	return &File{filepath.Base(path), hex.EncodeToString(sum[:]), m}, nil
}

// Program returns the model as a program.
func (f *File) Program() *formulation.Program { return &formulation.Program{Model: f.Model} }

// minimised returns the program of certificates about the model: the negative of a maximisation.
func (f *File) minimised() milp.Data {
	d := f.Model.Data()
	if d.Sense == milp.Maximize {
		d.Cost = slices.Clone(d.Cost)
		for j := range d.Cost {
			d.Cost[j] = 0 - d.Cost[j]
		}
		d.Sense, d.Offset = milp.Minimize, 0-d.Offset
	}
	return d
}

// Check returns the first defect of c as a proof about the model.
func (f *File) Check(c *certificate.Certificate) error {
	if c.Formulation != fileFormulation || c.Problem != fileProblem {
		return fmt.Errorf("formulation: the certificate is about %s, not about a model's file", c.Formulation)
	}
	if c.Instance != f.SHA256 {
		return fmt.Errorf("instance: the certificate is about %s with sha256 %.12s…, %s has %.12s…", c.Name, c.Instance, f.Name, f.SHA256)
	}
	if c.Scale != 1 && !c.Infeasible {
		return fmt.Errorf("scale: it is %v, that of files is 1", c.Scale)
	}
	d := f.minimised()
	return c.Check(&d)
}

// FileSolution is the knowledge about a model, with its sources. Numbers are in the model's own sense; null: none.
type FileSolution struct {
	Format  string `json:"format"`
	Name    string `json:"name"`
	SHA256  string `json:"sha256"`
	Backend string `json:"backend"`
	Sense   string `json:"sense"` // "minimize" or "maximize"
	Size    Size   `json:"size"`
	// Status is optimal, feasible, infeasible, unbounded or unknown. Certified reports that exact arithmetic
	// proves it: the bound, or infeasibility.
	Status    string   `json:"status"`
	Certified bool     `json:"certified"`
	Stopped   string   `json:"stopped,omitempty"`
	Objective *float64 `json:"objective"`
	// Exact reports that the solution satisfies every row in exact arithmetic, not only within the tolerance of
	// solvers.
	Exact bool `json:"exact"`
	// Bound is certified; Gap is to it.
	Bound *float64 `json:"bound"`
	Gap   *float64 `json:"gap"`
	// Claim is the uncertified result of the backend, and Refuted why it is wrong.
	Claim struct {
		Status    string   `json:"status"`
		Objective *float64 `json:"objective"`
		Bound     *float64 `json:"bound"`
	} `json:"claim"`
	Refuted string             `json:"refuted,omitempty"`
	Leaves  int                `json:"leaves,omitempty"` // of the certificate
	Nodes   int64              `json:"nodes"`            // of the proof
	Time    float64            `json:"time"`             // seconds, of the backend and the proof
	Note    string             `json:"note,omitempty"`
	Columns map[string]float64 `json:"columns,omitempty"`

	Certificate *certificate.Certificate `json:"-"`

	kept bool // the solution satisfies every row up to rounding
}

// rounding is the violation of rows up to which a solution counts in a proof, see [certificate.Keeps]. The
// absolute tolerances of solvers may amount to integers where coefficients are small.
const rounding = 1e-9

// closedGap is the gap at which a certified bound proves a solution optimal.
const closedGap = 1e-6

// Certify solves the model with b, for at most half of the time. In the rest it certifies what it can in exact
// arithmetic, with lp's linear programs; only the root if root is set. If a point found by the proof refutes the
// backend's result, it replaces that result.
func (f *File) Certify(ctx context.Context, b, lp solvers.Backend, o solvers.Options, root bool) (*FileSolution, error) {
	begin := time.Now()
	limit := o.Time
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
		o.Time = limit / 2
	}
	r, err := b.Solve(ctx, f.Model, o)
	if err != nil {
		return nil, err
	}
	s := &FileSolution{
		Format: FileFormat, Name: f.Name, SHA256: f.SHA256, Backend: r.Backend, Sense: "minimize", Size: SizeOf(f.Model), Note: r.Note,
	}
	d := f.Model.Data()
	if d.Sense == milp.Maximize {
		s.Sense = "maximize"
	}
	s.Claim.Status, s.Claim.Bound = r.Status.String(), number(r.Bound)
	if r.Stop != solvers.NotStopped {
		s.Stopped = r.Stop.String()
	}
	x, _ := r.Solution()
	if x != nil {
		s.Claim.Objective = number(r.Obj)
	}
	if r.Status == solvers.Unbounded {
		s.Status, s.Certified = "unbounded", false
	} else if x, err = f.prove(ctx, s, lp, x, root); err != nil {
		return nil, err
	}
	if x != nil {
		s.Objective, s.Exact, s.kept = number(f.Model.Objective(x)), certificate.Keeps(&d, x, 0), certificate.Keeps(&d, x, rounding)
		s.Columns = named(f.Model.ColNames(), x)
	}
	s.conclude(r.Status)
	s.Time = time.Since(begin).Seconds()
	return s, nil
}

// prove certifies what it can, from the solution x, nil: none, and returns the best known solution.
func (f *File) prove(ctx context.Context, s *FileSolution, lp solvers.Backend, x []float64, root bool) ([]float64, error) {
	d := f.minimised()
	minimise := milp.FromData(d)
	goal := math.Inf(1)
	if x != nil {
		goal = minimise.Objective(x)
	}
	for {
		open, err := solvers.OpenLP(lp, &d)
		if err != nil {
			return x, err
		}
		o := certify.Options{Goal: goal}
		if root {
			o.Nodes = 1
		}
		head := certificate.Certificate{Name: f.Name, Instance: f.SHA256, Problem: fileProblem, Formulation: fileFormulation, Backend: lp.Name()}
		r, err := certify.Tree(ctx, open, &d, head, o)
		open.Close()
		switch {
		case errors.Is(err, solvers.ErrSolver):
			s.note(err.Error())
			return x, nil
		case err != nil:
			return x, err
		}
		s.Nodes += r.Nodes
		if r.Note != "" {
			s.note(r.Note)
		}
		if c := r.Certificate; c != nil {
			s.Certificate, s.Leaves, s.Bound = c, c.Leaves(), nil
			if !c.Infeasible {
				s.Bound = number(float64(f.Model.Data().Sense) * c.Value())
			}
		}
		better := f.better(minimise, r.Point, goal)
		if better == nil || ctx.Err() != nil {
			return x, nil
		}
		x, goal = better, minimise.Objective(better)
	}
}

// better returns a point with its integers rounded if it satisfies the rows up to rounding and its objective is
// less than the goal; else nil.
func (f *File) better(minimise *milp.Model, x []float64, goal float64) []float64 {
	if x == nil {
		return nil
	}
	d := minimise.Data()
	y := make([]float64, len(x))
	for j, v := range x {
		if y[j] = min(max(v, d.Lower[j]), d.Upper[j]); d.Integer[j] {
			y[j] = math.Round(y[j])
		}
	}
	if !certificate.Keeps(&d, y, rounding) || !math.IsInf(goal, 1) && goal-minimise.Objective(y) <= 1e-9*math.Max(1, math.Abs(goal)) {
		return nil
	}
	return y
}

func (s *FileSolution) note(text string) {
	if s.Note != "" {
		s.Note += "; "
	}
	s.Note += text
}

// conclude sets the status, and what refutes the claim.
func (s *FileSolution) conclude(claimed solvers.Status) {
	infeasible := s.Certificate != nil && s.Certificate.Infeasible
	if s.Objective != nil && s.Bound != nil {
		s.Gap = number(math.Abs(platform.Excess(*s.Objective, *s.Bound)))
		better := *s.Objective - *s.Bound
		if s.Sense == "minimize" {
			better = -better
		}
		if better > 0 { // the bound exceeds the point by a tolerance
			s.Gap = number(0)
		}
	}
	switch {
	case infeasible && s.Objective == nil:
		s.Status, s.Certified = "infeasible", true
	case s.Status == "unbounded":
	case s.Objective == nil && claimed == solvers.Infeasible && (s.Certificate == nil || s.Bound != nil):
		s.Status = "infeasible"
	case s.Objective == nil:
		s.Status = "unknown"
	case s.Gap != nil && *s.Gap <= closedGap:
		s.Status, s.Certified = "optimal", s.kept
	case claimed == solvers.Optimal:
		s.Status = "optimal"
	default:
		s.Status = "feasible"
	}
	switch {
	case s.Objective != nil && (claimed == solvers.Infeasible || claimed == solvers.InfeasibleOrUnbounded):
		s.Refuted = "a solution is known"
	case claimed == solvers.Optimal && s.Claim.Objective != nil && s.Objective != nil &&
		math.Abs(*s.Objective-*s.Claim.Objective) > closedGap*math.Max(1, math.Abs(*s.Objective)):
		s.Refuted = "a better solution is known"
	}
	if s.Refuted != "" && !s.Certified && s.Status == "optimal" {
		s.Status = "feasible"
	}
}

// Text prints a solution as text.
func (s *FileSolution) Text(w io.Writer) {
	fmt.Fprintf(w, "%s by %s\n", s.Name, s.Backend)
	fmt.Fprintf(w, "  size        %s, to %s\n", s.Size, s.Sense)
	status := s.Status
	switch {
	case s.Certified:
		status += ", certified in exact arithmetic"
	case s.Status == "optimal" || s.Status == "infeasible" || s.Status == "unbounded":
		status += " according to " + s.Backend + ", not certified"
	}
	if s.Stopped != "" {
		status += "; stopped by " + s.Stopped
	}
	fmt.Fprintf(w, "  status      %s\n", status)
	if s.Refuted != "" {
		fmt.Fprintf(w, "  refuted     %s claims %s, objective %s: %s\n", s.Backend, s.Claim.Status, written(s.Claim.Objective), s.Refuted)
	}
	fmt.Fprintf(w, "  objective   %s", written(s.Objective))
	switch {
	case s.Objective != nil && s.Exact:
		fmt.Fprint(w, ", the solution keeps every row exactly")
	case s.kept:
		fmt.Fprint(w, ", the solution keeps every row but for rounding (1e-9)")
	case s.Objective != nil:
		fmt.Fprint(w, ", the solution keeps its rows only within the solver's tolerance (2e-6)")
	}
	fmt.Fprintf(w, "\n  bound       %s", written(s.Bound))
	if s.Bound != nil {
		fmt.Fprintf(w, ", certified by %s; claimed: %s", platform.Count(s.Leaves, "leaf"), written(s.Claim.Bound))
	}
	fmt.Fprintln(w)
	if s.Gap != nil {
		fmt.Fprintf(w, "  gap         %.4f %%\n", 100**s.Gap)
	}
	fmt.Fprintf(w, "  proof       %s\n", platform.Count(int(s.Nodes), "node"))
	fmt.Fprintf(w, "  time        %s\n", platform.FormatSeconds(s.Time))
	if s.Note != "" {
		fmt.Fprintf(w, "  note        %s\n", s.Note)
	}
}
