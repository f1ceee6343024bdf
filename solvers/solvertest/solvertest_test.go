package solvertest_test

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/solvertest"
)

// The enumerating backend passes, so the suite asks for nothing impossible.
func TestEnumerate(t *testing.T) {
	testfile.Long(t)
	solvertest.Run(t, enumerate.New(), nil)
}

func TestCycles(t *testing.T) { solvertest.Cycles(t, enumerate.New(), testfile.Cases(800)) }

// The judge agrees with itself going another way.
func TestDifferential(t *testing.T) { solvertest.Differential(t, reversed{enumerate.New()}) }

// reversed solves models with rows and columns in reverse order, so that the
// enumeration takes another way.
type reversed struct{ solvers.Backend }

func (b reversed) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	o.OnProgress = nil // its values would be in the wrong order
	r, err := b.Backend.Solve(ctx, solvertest.Reverse(m), o)
	if err == nil {
		slices.Reverse(r.X)
	}
	return r, err
}

// TestRandomModels checks that random models are worth comparing.
func TestRandomModels(t *testing.T) {
	const models = 1000
	random := rapid.Custom(solvertest.RandomModel)
	seen := map[solvers.Status]int{}
	for i := range models {
		m := random.Example(i) // the same ones each time, so that counts do not vary
		x, err := enumerate.New().Solve(t.Context(), m, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if m.NumIntegers() >= 3 && m.NumRows() >= 3 {
			seen[x.Status]++
		}
	}
	for status, least := range map[solvers.Status]int{
		solvers.Optimal: models / 10, solvers.Infeasible: models / 100,
		solvers.Unbounded: models / 100,
	} {
		if seen[status] < least {
			t.Errorf("%d of %d are %v, want %d; of those with 3 integers and rows %v", seen[status], models, status, least, seen)
		}
	}
}

// TestDifferentialNotices checks that a wrong optimum is found out.
func TestDifferentialNotices(t *testing.T) {
	wrong := 0
	testfile.Property(t, func(t *rapid.T) {
		m := solvertest.RandomModel(t)
		if solvertest.Agree(enumerate.New(), offByOne{enumerate.New()}, m) != nil {
			wrong++
		}
	})
	if wrong == 0 {
		t.Error("a backend that never takes the upper bounds of integers went unnoticed")
	}
}

// offByOne never lets an integer take its upper bound.
type offByOne struct{ solvers.Backend }

func (b offByOne) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	d := m.Data()
	d.Upper = slices.Clone(d.Upper)
	for j, integer := range d.Integer {
		if integer && d.Upper[j] > d.Lower[j] {
			d.Upper[j]--
		}
	}
	return b.Backend.Solve(ctx, milp.FromData(d), o)
}
