package certify

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
)

// outside is a library whose points miss the bounds of integer columns by its tolerance, as
// HiGHS's do.
type outside struct {
	solvers.LP
	d *milp.Data
}

func (o outside) Solve(ctx context.Context, options solvers.LPOptions) (*solvers.LPResult, error) {
	r, err := o.LP.Solve(ctx, options)
	if err == nil {
		for j := range r.X {
			if o.d.Integer[j] && r.X[j] == math.Round(r.X[j]) {
				r.X[j] -= 2e-6 * float64(1-2*(j%2))
			}
		}
	}
	return r, err
}

// TestOutsideOfTheBox: no column is split outside its box, wherever the library puts it.
func TestOutsideOfTheBox(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m := models().Draw(t, "model")
		d := m.Data()
		lp := open(t, &d)
		defer lp.Close()
		goal := optimum(t, m)
		r, err := Tree(context.Background(), outside{lp, &d}, &d, head, Options{Goal: goal})
		if err != nil || !r.Closed {
			t.Fatalf("%v, %+v", err, r)
		}
	})
}

// TestReportedModels: models on which HiGHS 1.10.0 gave false verdicts are certified what is
// true of them.
func TestReportedModels(t *testing.T) {
	for _, test := range []struct {
		name string
		want float64
	}{{"one-point.lp", -175.91}, {"highs-2204.mps", 6}} {
		m, err := milp.OpenFile(testfile.Shared(t, "reports/milp/"+test.name))
		if err != nil {
			t.Fatal(err)
		}
		d := m.Data()
		lp := open(t, &d)
		defer lp.Close()
		for goal, closed := range map[float64]bool{test.want: true, test.want + 1: false, inf: false} {
			r, err := Tree(t.Context(), lp, &d, head, Options{Goal: goal})
			if err != nil || r.Certificate == nil || goal < inf && r.Closed != closed {
				t.Fatalf("%s, goal %v: %v, %+v", test.name, goal, err, r)
			}
			if v := value(r.Certificate); r.Certificate.Infeasible || math.Abs(v-test.want) > 1e-6*math.Abs(test.want) {
				t.Errorf("%s, goal %v: %v proved, want %v", test.name, goal, v, test.want)
			}
		}
	}
}
