package formulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"

	"workbench/bench/solve"
	"workbench/ilp"
	"workbench/ilp/formulation"
	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ProvedFormat names the format of [Proved].
const ProvedFormat = "workbench.proved/v1"

// Proved is the result of the check of a certificate.
type Proved struct {
	Format     string   `json:"format"`
	Valid      bool     `json:"valid"`
	Error      string   `json:"error,omitempty"` // the first defect
	Infeasible bool     `json:"infeasible,omitempty"`
	Bound      *float64 `json:"bound,omitempty"` // seconds or bytes, as the objective, rounded down
	Exactly    string   `json:"exactly,omitempty"`
	Name       string   `json:"name"`
	Problem    string   `json:"problem"`
	// Platform and Options are those that the checker has read.
	Platform    json.RawMessage `json:"platform,omitempty"`
	Formulation string          `json:"formulation"`
	Options     json.RawMessage `json:"options,omitempty"`
	Promise     string          `json:"promise"`
	Assumptions []string        `json:"assumptions"`
	Leaves      int             `json:"leaves"`

	// Data is the rebuilt program of the certificate.
	Data *milp.Data `json:"-"`
}

// Prove rebuilds the model of a certificate for the instance, and checks the proof in exact arithmetic.
// memoryModel is the required memory model, "": any.
func Prove(in *solve.Instance, c *certificate.Certificate, file, memoryModel string) *Proved {
	v := &Proved{Format: ProvedFormat, Name: in.Name, Problem: c.Problem, Formulation: c.Formulation, Assumptions: []string{}}
	if err := cmp.Or(inModel(c, file, memoryModel), v.check(in, c, file)); err != nil {
		v.Error = err.Error()
		return v
	}
	v.Valid, v.Infeasible, v.Leaves = true, c.Infeasible, c.Leaves()
	if !c.Infeasible {
		value, exactly := c.Value(), c.Bound
		if plan.MinimisesMemory(c.Problem) {
			value = in.Unit().Bytes(value)
			exactly = new(big.Rat).Quo(exactly, new(big.Rat).SetFloat64(in.Unit().PerByte()))
		}
		v.Bound, v.Exactly = &value, exactly.RatString()
	}
	return v
}

// Prove checks a certificate about the model of a file.
func (f *File) Prove(c *certificate.Certificate, file string) *Proved {
	d := f.minimised()
	v := &Proved{
		Format: ProvedFormat, Name: f.Name, Problem: c.Problem, Formulation: c.Formulation,
		Promise: formulation.Equal.String(), Assumptions: []string{}, Data: &d,
	}
	if err := f.Check(c); err != nil {
		v.Error = fmt.Sprintf("%s: %v", file, err)
		return v
	}
	v.Valid, v.Infeasible, v.Leaves = true, c.Infeasible, c.Leaves()
	if !c.Infeasible {
		value, exactly := c.Value(), c.Bound
		if f.Model.Sense() == milp.Maximize {
			value, exactly = 0-value, new(big.Rat).Neg(exactly)
		}
		v.Bound, v.Exactly = &value, exactly.RatString()
	}
	return v
}

// check returns the first defect of c as a proof about in.
func (v *Proved) check(in *solve.Instance, c *certificate.Certificate, file string) error {
	if c.Instance != in.SHA256 {
		return fmt.Errorf("%s: instance: the certificate is about %s with sha256 %.12s…, %s has %.12s…", file, c.Name, c.Instance, in.Name,
			in.SHA256)
	}
	list := ilp.Formulations()
	if k := slices.IndexFunc(list, func(f formulation.Formulation) bool { return f.Name == c.Formulation }); k >= 0 &&
		list[k].Problem != c.Problem {
		return fmt.Errorf("%s: problem: it is %s, and %s is about %s", file, c.Problem, c.Formulation, list[k].Problem)
	}
	var p platform.Platform
	if err := json.Unmarshal(c.Platform, &p); err != nil {
		return fmt.Errorf("%s: platform: %w", file, err)
	}
	var err error
	if v.Platform, err = json.Marshal(p); err != nil {
		return fmt.Errorf("%s: platform: %w", file, err)
	}
	program, err := ilp.Rebuild(c.Formulation, in.Instance, in.Platform(p), c.Options)
	if err != nil {
		return fmt.Errorf("%s: formulation: the model cannot be rebuilt: %w", file, in.InBytes(err))
	}
	if v.Options = program.Options; !same(v.Options, c.Options) {
		return fmt.Errorf("%s: options: they are %.200s, those of the model are %.200s", file, cmp.Or(string(c.Options), "missing"), v.Options)
	}
	if scale := program.Objective(1); c.Scale != scale && !c.Infeasible { // without a bound there is nothing to scale
		return fmt.Errorf("%s: scale: it is %v, that of %s on %s is %v", file, c.Scale, c.Formulation, in.Name, scale)
	}
	v.Promise = program.Promise.String()
	if program.Promise != formulation.Equal && program.Promise != formulation.LowerBound {
		return fmt.Errorf("%s: formulation: %s makes no promise about bounds", file, c.Formulation)
	}
	v.Assumptions = append(v.Assumptions, program.Assumptions...)
	data := program.Model.Data()
	v.Data = &data
	if err := c.Check(&data); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// inModel returns an error for a certificate in another memory model.
func inModel(c *certificate.Certificate, file, memoryModel string) error {
	if memoryModel == "" {
		return nil
	}
	var o struct {
		MemoryModel string `json:"memory_model"`
	}
	if err := json.Unmarshal([]byte(cmp.Or(string(c.Options), "{}")), &o); err != nil || o.MemoryModel != memoryModel {
		return fmt.Errorf("%s: options: the proof is in memory model %q, not %q", file, o.MemoryModel, memoryModel)
	}
	return nil
}

// same reports whether two JSON texts of options are equal.
func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Text prints the proved statement.
func (v *Proved) Text(w io.Writer) {
	if !v.Valid {
		fmt.Fprintf(w, "%s of %s: NOT PROVED\n  %s\n", v.Problem, v.Name, v.Error)
		return
	}
	if v.Formulation == fileFormulation {
		v.textOfFile(w)
		return
	}
	plans, what, unit := "no plan", "exists", "s"
	if plan.MinimisesMemory(v.Problem) {
		unit = "bytes"
	}
	if len(v.Assumptions) > 0 {
		plans = "no plan of those below"
	}
	if v.Bound != nil {
		what = fmt.Sprintf("takes less than %v %s", *v.Bound, unit) // all digits: rounding to nearest could overstate it
	}
	fmt.Fprintf(w, "%s of %s: proved\n  %s %s\n", v.Problem, v.Name, plans, what)
	if v.Exactly != "" {
		fmt.Fprintf(w, "  exactly     %s %s\n", v.Exactly, unit)
	}
	fmt.Fprintf(w, "  by          %s (%s), %s, checked in exact arithmetic\n", v.Formulation, v.Promise, platform.Count(v.Leaves, "leaf"))
	for _, a := range v.Assumptions {
		fmt.Fprintf(w, "  of plans that keep: %s\n", a)
	}
	fmt.Fprintf(w, "  platform    %s\n", v.Platform)
	if v.Options != nil {
		fmt.Fprintf(w, "  options     %.200s\n", v.Options)
	}
}

func (v *Proved) textOfFile(w io.Writer) {
	if v.Bound == nil {
		fmt.Fprintf(w, "%s: proved\n  no solution exists\n", v.Name)
	} else {
		fmt.Fprintf(w, "%s: proved\n  no solution is better than %v\n  exactly     %s\n", v.Name, *v.Bound, v.Exactly)
	}
	fmt.Fprintf(w, "  by          %s, checked in exact arithmetic\n", platform.Count(v.Leaves, "leaf"))
}
