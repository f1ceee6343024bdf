package formulate

import (
	"bufio"
	_ "embed" // of the licence
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"workbench/bench/atomicfile"
	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/model/proof"
)

// SetFormat names the format of [Set].
const SetFormat = "workbench.formulation-set/v1"

// Set is a dated set of models for solver developers: index.json of its folder.
type Set struct {
	Format  string     `json:"format"`
	Date    string     `json:"date"`
	Licence string     `json:"licence"`
	Models  []SetModel `json:"models"`
}

// SetModel is one model of a set. Best and Bound are in the units of the model, which minimises.
type SetModel struct {
	File        string  `json:"file"`
	Start       string  `json:"start,omitempty"` // values of columns by name, of the best plan known
	Formulation string  `json:"formulation"`
	Promise     string  `json:"promise"`
	Instance    string  `json:"instance"`
	SHA256      string  `json:"sha256"` // of the instance
	Memory      float64 `json:"memory"` // bytes
	Size        Size    `json:"size"`
	// Best is the objective of the start; null: there is none.
	Best *float64 `json:"best"`
	// Bound is proved without relying on a solver; null where the problem's bound does not apply to the solutions
	// of the model, as for relaxations. By names the proof.
	Bound *float64 `json:"bound"`
	By    string   `json:"by,omitempty"`
}

// Licence is the licence of the models: that of the program.
const Licence = "Apache-2.0"

// licence is its text, a copy of the file at the root, where embedding does not reach.
//
//go:embed LICENSE
var licence string

// Export adds to a set, and writes into its folder, the models of an instance by every formulation that can be
// built for it, with the plan and bound of a run.
func (set *Set) Export(folder string, list []formulation.Formulation, in *solve.Instance, p platform.Platform, r *solve.Result) error {
	if err := atomicfile.Folder(folder); err != nil {
		return err
	}
	for _, f := range list {
		program, err := method.Build(f, in, p)
		if errors.Is(err, solve.ErrInput) {
			continue // it does not support the instance, or the instance is too large
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		m := SetModel{
			Formulation: f.Name, Promise: f.Promise.String(), Instance: in.Name, SHA256: in.SHA256,
			Memory: r.Platform.Memory, Size: SizeOf(program.Model),
		}
		if err := m.write(folder, program, r); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		set.Models = append(set.Models, m)
	}
	return nil
}

// write writes the model and its start.
func (m *SetModel) write(folder string, p *formulation.Program, r *solve.Result) error {
	name := fileName(fmt.Sprintf("%s-%s-%.0f", m.Formulation, m.Instance, m.Memory))
	m.File = name + ".mps"
	var names *milp.NameMap
	err := atomicfile.Write(filepath.Join(folder, m.File), nil, func(w io.Writer) (err error) {
		names, err = p.Model.WriteMPS(w, milp.FreeMPS)
		return err
	})
	if err != nil {
		return err
	}
	sense := 1.
	if names.Negated {
		sense = -1
	}
	// The problem's bound applies to solutions that are plans.
	if b := r.Bound; b != nil && b.Proof != proof.Solver && (p.Promise == formulation.Equal || p.Promise == formulation.Restriction) {
		m.Bound, m.By = number(sense*p.ModelObjective(b.Value)), string(b.Proof)+": "+b.By
	}
	if p.Start == nil || r.Plan == nil || p.Promise == formulation.Nothing {
		return nil
	}
	x, err := p.Start(r.Plan)
	if err != nil || len(p.Model.Violations(x, startTolerance)) > 0 {
		return nil // the plan is no solution of this one, or the start leaves columns open
	}
	m.Start, m.Best = name+".sol", number(sense*p.Model.Objective(x))
	return atomicfile.Write(filepath.Join(folder, m.Start), nil, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		fmt.Fprintf(b, "# objective %s\n", strconv.FormatFloat(*m.Best, 'g', -1, 64))
		for j, v := range x {
			fmt.Fprintf(b, "%s %s\n", names.Cols[j], strconv.FormatFloat(v, 'g', -1, 64))
		}
		return b.Flush()
	})
}

// startTolerance is the violation that solvers accept in a start.
const startTolerance = 1e-6

// fileName converts free text to a file name.
func fileName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, text)
}

// Write writes index.json, README.md and LICENSE into the folder.
func (set *Set) Write(folder string) error {
	err := atomicfile.Write(filepath.Join(folder, "index.json"), nil, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(set)
	})
	if err != nil {
		return err
	}
	err = atomicfile.Write(filepath.Join(folder, "LICENSE"), nil, func(w io.Writer) error {
		_, err := io.WriteString(w, licence)
		return err
	})
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(folder, "README.md"), nil, set.readme)
}

func (set *Set) readme(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Models of GPU memory planning, %s\n\n", set.Date)
	fmt.Fprintf(b, "Mixed-integer programs of rematerialization, offloading and pipelines, made by workbench. All minimise. "+
		"MPS files are free; names are at most 128 long, their originals are in comments. A start is the best plan known, "+
		"replayed by a verifier: a line for each column. Bounds are proved in exact arithmetic or by a search of the problem, never "+
		"by a solver's word. Numbers are in the units of the models. index.json has the same.\n\nLicence: %s, in [LICENSE](LICENSE).\n\n",
		set.Licence)
	fmt.Fprintln(b, "| model | rows | columns | integers | start | bound | what it is to the problem |\n|---|---|---|---|---|---|---|")
	for _, m := range set.Models {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %s | %s | %s |\n", m.File, m.Size.Constraints, m.Size.Variables, m.Size.Integers, exactly(m.Best),
			exactly(m.Bound), m.Promise)
	}
	return b.Flush()
}

// exactly formats a number with all its digits.
func exactly(x *float64) string {
	if x == nil || math.IsNaN(*x) {
		return "-"
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}
