package solvers_test

import (
	"context"
	"math"
	"math/big"
	"strings"
	"testing"

	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/enumerate"
)

// silent is enumeration that finds nothing.
type silent struct{ solvers.Backend }

func (silent) Solve(context.Context, *milp.Model, solvers.Options) (*solvers.Result, error) {
	return &solvers.Result{Status: solvers.NoSolution}, nil
}

// worse is enumeration that is content with less.
type worse struct{ solvers.Backend }

func (b worse) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	r, err := b.Backend.Solve(ctx, m, o)
	if err == nil {
		r.Obj += 6
	}
	return r, err
}

// TestProbesAreSolved: the optimum of a probe is that of a point which keeps every row
// in exact arithmetic. That nothing is better is for certificates to say, see
// ilp/certify.
func TestProbesAreSolved(t *testing.T) {
	points := map[string][]float64{
		"presolve takes a continuous column for an integer": {0, -0.25, -100},
		"HiGHS 3043":                {4.5, 0},
		"HiGHS 3073":                {0, 3, 3},
		"HiGHS 3094":                {1, 1000, 0, 0, 0, 1000},
		"weights that nearly fit":   {0, 1, 0, 1, 1},
		"a side of 6e-5 beside 500": {11: 1, 12: 1e-6},
		"a byte beside a value":     {10: 0x1p-10, 15: 0},
		"memory to the last byte":   {1, 1},
		"stages on two processors":  {1000, 1, 0, 0, 1, 0, 0, 0},
		"one point":                 {8.89, 0.29, 0, 4},
		"HiGHS 2446":                {7.2159, 9: 0},
		"HiGHS 2204":                {2: 1, 4: 1, 12: 1, 14: 1, 22: 1, 23: 1, 32: 1, 36: 0},
	}
	for _, p := range solvers.Probes() {
		d, x := p.Model().Data(), points[p.Name]
		slack := new(big.Rat)
		if p.Name == "one point" { // the only one that has it on a row's side, in decimals
			slack.SetFloat64(1e-13)
		}
		if math.IsInf(p.Optimum, 0) {
			continue // solvers finds the direction
		}
		if value, _ := exact(d.Cost, x, nil).Float64(); math.Abs(value-p.Optimum) > 1e-15*math.Max(1, math.Abs(p.Optimum)) {
			t.Errorf("%s: the point costs %v, want %v", p.Name, value, p.Optimum)
		}
		for j, v := range x {
			if v < d.Lower[j] || v > d.Upper[j] || d.Integer[j] && v != math.Round(v) {
				t.Errorf("%s: column %d is %v", p.Name, j, v)
			}
		}
		for i, lower := range d.RowLower {
			y := exact(d.Val[d.Start[i]:d.Start[i+1]], x, d.Col[d.Start[i]:d.Start[i+1]])
			if !math.IsInf(lower, -1) && new(big.Rat).Add(y, slack).Cmp(new(big.Rat).SetFloat64(lower)) < 0 || !math.IsInf(d.RowUpper[i], 1) &&
				new(big.Rat).Sub(y, slack).Cmp(new(big.Rat).SetFloat64(d.RowUpper[i])) > 0 {
				t.Errorf("%s: row %d is %v, not from %v to %v", p.Name, i, y, lower, d.RowUpper[i])
			}
		}
	}
}

// exact is Σ val·x[col], or Σ val·x.
func exact(val, x []float64, col []int32) *big.Rat {
	sum := new(big.Rat)
	for k, v := range val {
		at := k
		if col != nil {
			at = int(col[k])
		}
		sum.Add(sum, new(big.Rat).Mul(new(big.Rat).SetFloat64(v), new(big.Rat).SetFloat64(x[at])))
	}
	return sum
}

// TestWrong: enumeration finds the optima of the probes; those that do not are
// found out.
func TestWrong(t *testing.T) {
	// It does not take 2^25 points on.
	if w := solvers.Wrong(t.Context(), enumerate.New()); len(w) != 1 || !strings.HasPrefix(w[0], "HiGHS 2204") ||
		!strings.Contains(w[0], "not supported") {
		t.Errorf("enumeration: %v", w)
	}
	for want, b := range map[string]solvers.Backend{
		"HiGHS 3043: no solution, the optimum is 9":      silent{enumerate.New()},
		"HiGHS 3043: calls 15 optimal, the optimum is 9": worse{enumerate.New()},
	} {
		w := solvers.Wrong(t.Context(), b)
		if len(w) < len(solvers.Probes())-1 || !strings.Contains(strings.Join(w, "\n"), want) {
			t.Errorf("%q, want %q among them", w, want)
		}
	}
}
