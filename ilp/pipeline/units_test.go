package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"workbench/ilp/formulation"
	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// inUnits returns an instance with times in other units of seconds, and sizes in
// other units of the memory.
func inUnits(c *chain.Chain, p platform.Platform, time, size float64) (*chain.Chain, platform.Platform) {
	d := *c
	d.Input.Activation, d.Input.Gradient = d.Input.Activation*size, d.Input.Gradient*size
	d.Layers = append([]chain.Layer{}, c.Layers...)
	for i := range d.Layers {
		l := &d.Layers[i]
		l.ForwardTime, l.BackwardTime = l.ForwardTime*time, l.BackwardTime*time
		l.Activation, l.Saved, l.Gradient, l.Weight = l.Activation*size, l.Saved*size, l.Gradient*size, l.Weight*size
	}
	p.Memory *= size
	p.Bandwidth *= size / time
	return &d, p
}

// Every formulation has the same answer in seconds, milli-, micro- and
// nanoseconds, of bytes and of megabytes, on both backends; the exact ones that
// of exhaustive search.
func TestUnits(t *testing.T) {
	t.Parallel()
	solved := 0
	for seed := range uint64(testfile.Cases(8)) {
		r := rand.New(rand.NewPCG(seed, 60))
		layers := 1 + r.IntN(2)
		c, p := randomPipeline(r, layers)
		want, _, err := optimum.Search(c, p, plan.TaskModel, 1<<20)
		if err != nil && !errors.Is(err, exhaustive.ErrInfeasible) {
			t.Fatal(err)
		}
		for _, f := range Formulations() {
			first := math.NaN()
			for _, unit := range testfile.Few(2, [][2]float64{{1, 1}, {1e-9, 1e6}, {1e3, 1e9}, {1e-3, 1}, {1e-6, 1}, {1e-9, 1}}...) {
				c, p := inUnits(c, p, unit[0], unit[1])
				program, buildErr := f.Build(c, p, nil)
				var infeasible *plan.Infeasible
				if errors.As(buildErr, &infeasible) {
					if err == nil {
						t.Errorf("seed %d, %s: %v", seed, f.Name, buildErr)
					}
					continue
				}
				if buildErr != nil {
					t.Fatal(buildErr)
				}
				for _, b := range []solvers.Backend{highs.New(), lpsolve.New()} {
					got := leastPeriod(t, b, program.Model, program.Unit) / unit[0]
					if math.IsNaN(first) {
						first = got
					}
					if math.Abs(got-first) > 1e-6*first {
						t.Errorf("seed %d, %s in units of %v on %s: %v, at first %v", seed, f.Name, unit, b.Name(), got, first)
					}
					if f.Promise == formulation.Equal && math.Abs(got-want) > 1e-6*want || f.Promise == formulation.LowerBound && got > want*(1+1e-6) {
						t.Errorf("seed %d, %s in units of %v on %s: %v, exhaustive search finds %v", seed, f.Name, unit, b.Name(), got, want)
					}
					solved++
				}
			}
		}
	}
	want := 100
	if testing.Short() {
		want = 5 // a tenth of the cases, a third of the units
	}
	if solved < want {
		t.Errorf("only %d models", solved)
	}
}

// A program is made again from its name and its options, to the letter.
func TestRebuild(t *testing.T) {
	t.Parallel()
	c, p := randomPipeline(rand.New(rand.NewPCG(3, 61)), 3)
	p.Memory *= 2
	text := func(m *milp.Model) string {
		var b strings.Builder
		if _, err := m.WriteLP(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	build := func(program *formulation.Program, err error) *formulation.Program {
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	list := []*formulation.Program{build(Strong(c, p, MemoryOption{plan.StageModel}))}
	for _, f := range Formulations() {
		list = append(list, build(f.Build(c, p, nil)))
	}
	for _, x := range list {
		again := build(formulation.Rebuild(Formulations(), x.Formulation, c, p, x.Options))
		if text(again.Model) != text(x.Model) || again.Unit != x.Unit || !slices.Equal(again.Assumptions, x.Assumptions) {
			t.Errorf("%s %s: another program", x.Formulation, x.Options)
		}
	}
	if _, err := formulation.Rebuild(Formulations(), "pipelines", c, p, nil); !errors.Is(err, formulation.ErrInstance) {
		t.Error(err)
	}
	for name, options := range map[string]string{closedName: `{"limit": 1}`, strongName: `{"longest": 1e-9}`, patternsName: `{"limit": 1}`} {
		if _, err := formulation.Rebuild(Formulations(), name, c, p, []byte(options)); !errors.Is(err, formulation.ErrInstance) {
			t.Errorf("%s %s: %v", name, options, err)
		}
	}
}
