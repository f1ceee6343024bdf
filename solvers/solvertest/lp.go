package solvertest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
)

// RunLP holds linear programs that change to their contract: after any changes
// the answer is that of the program as it is now, and multipliers and rays prove
// it, rays of engines that give any.
func RunLP(t *testing.T, e solvers.LPEngine, rays bool) {
	t.Run("changes", func(t *testing.T) {
		testfile.Property(t, func(t *rapid.T) { lpChanges(t, e, rays) })
	})
	t.Run("limits", func(t *testing.T) { lpLimits(t, e) })
	t.Run("cutoff", func(t *testing.T) { lpCutoff(t, e) })
	t.Run("maximise", func(t *testing.T) {
		d := text("max 3x + 2y + 1; st; x + y <= 5; bounds; x <= 4; y <= 4").Data()
		p := open(t, e, &d)
		defer p.Close()
		r, err := p.Solve(t.Context(), solvers.LPOptions{})
		if err != nil || r.Status != solvers.Optimal || math.Abs(r.Objective-15) > 1e-6 || math.Abs(r.Dual[0]-2) > 1e-6 {
			t.Errorf("%+v, %v, want 15 and the dual 2", r, err)
		}
	})
}

func open(t rapid.TB, e solvers.LPEngine, d *milp.Data) solvers.LP {
	t.Helper()
	p, err := e.OpenLP(d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lpChanges changes a random program again and again.
func lpChanges(t *rapid.T, e solvers.LPEngine, rays bool) {
	whole := func(lo, up int, what string) float64 { return float64(rapid.IntRange(lo, up).Draw(t, what)) }
	n := rapid.IntRange(1, 6).Draw(t, "columns")
	d := milp.Data{Sense: milp.Minimize, Offset: 3, Start: []int32{0}, Integer: make([]bool, n)}
	for range n {
		lower := whole(-3, 3, "lower")
		d.Cost, d.Lower = append(d.Cost, whole(-5, 5, "cost")), append(d.Lower, lower)
		d.Upper = append(d.Upper, lower+whole(0, 5, "width"))
	}
	row := func() (lower, upper []float64, start, col []int32, val []float64) {
		for j := range n {
			if a := whole(-4, 4, "entry"); a != 0 || j == 0 {
				a = cmp.Or(a, 1) // libraries see no reason in an empty row
				col, val = append(col, int32(j)), append(val, a)
			}
		}
		side := whole(-12, 12, "side")
		return []float64{side}, []float64{side + rapid.SampledFrom([]float64{0, 2, inf}).Draw(t, "range")}, []int32{0, int32(len(col))}, col, val
	}
	grow := func(lower, upper []float64, start, col []int32, val []float64) {
		d.RowLower, d.RowUpper = append(d.RowLower, lower...), append(d.RowUpper, upper...)
		d.Col, d.Val = append(d.Col, col...), append(d.Val, val...)
		d.Start = append(d.Start, int32(len(d.Col)))
	}
	grow(row())
	p := open(t, e, &d)
	defer p.Close()
	for range rapid.IntRange(1, 8).Draw(t, "changes") {
		j := rapid.IntRange(0, n-1).Draw(t, "column")
		var err error
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0:
			lower, upper, start, col, val := row()
			grow(lower, upper, start, col, val)
			err = p.AddRows(lower, upper, start, col, val)
		case 1:
			d.Cost[j] = whole(-5, 5, "cost")
			err = p.SetCosts([]int32{int32(j)}, d.Cost[j:j+1])
		case 2:
			i := rapid.IntRange(0, len(d.RowLower)-1).Draw(t, "row")
			d.RowLower[i] = whole(-12, 12, "side")
			d.RowUpper[i] = d.RowLower[i] + whole(0, 3, "range")
			err = p.SetSides(int32(i), d.RowLower[i], d.RowUpper[i])
		case 3:
			err = widen(t, &d, p)
			n++
		case 4:
			k := rapid.IntRange(0, len(d.Val)-1).Draw(t, "entry")
			d.Val[k] = cmp.Or(whole(-4, 4, "coefficient"), 1)
			i, _ := slices.BinarySearch(d.Start, int32(k)+1)
			err = p.SetCoef(int32(i-1), d.Col[k], d.Val[k])
		default:
			d.Lower[j] = whole(-3, 3, "lower")
			d.Upper[j] = d.Lower[j] + whole(0, 5, "width")
			err = p.SetBounds([]int32{int32(j)}, d.Lower[j:j+1], d.Upper[j:j+1])
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Solve(context.Background(), solvers.LPOptions{Attempt: rapid.IntRange(0, 2).Draw(t, "attempt")})
		if err != nil {
			t.Fatal(err)
		}
		if err := provesItself(&d, r, rays); err != nil {
			t.Fatal(err)
		}
	}
}

// widen adds a column with entries in some rows.
func widen(t *rapid.T, d *milp.Data, p solvers.LP) error {
	m := milp.FromData(*d)
	cost, upper := float64(rapid.IntRange(-5, 5).Draw(t, "cost")), float64(rapid.IntRange(0, 5).Draw(t, "upper"))
	var entries []milp.Entry
	var row []int32
	var val []float64
	for r := range m.Rows() {
		if a := float64(rapid.IntRange(-4, 4).Draw(t, "entry")); a != 0 {
			entries = append(entries, milp.Entry{Row: r.Constr(), Coef: a})
			row, val = append(row, int32(r.Index)), append(val, a)
		}
	}
	m.Column("new", milp.Continuous, 0, upper, cost, entries)
	*d = m.Data()
	d.Groups, d.RowGroup = nil, nil
	return p.AddCols([]float64{cost}, []float64{0}, []float64{upper}, []int32{0, int32(len(row))}, row, val)
}

// provesItself checks a point and multipliers against each other: equal
// objectives of both prove both optimal.
func provesItself(d *milp.Data, r *solvers.LPResult, rays bool) error {
	model := certificate.NewModel(d, inf)
	switch r.Status {
	case solvers.Infeasible:
		if !rays && r.Ray == nil {
			return nil
		}
		for _, sign := range []float64{1, -1} {
			if model.Bound(multipliers(d, r.Ray, sign), false) > 0 {
				return nil
			}
		}
		return fmt.Errorf("infeasible, but neither the ray %v nor its opposite proves it", r.Ray)
	case solvers.Optimal:
		if missed := milp.FromData(*d).Violations(r.X, 1e-7); len(missed) != 0 {
			return fmt.Errorf("%v is no solution: %v", r.X, missed[0])
		}
		if v := model.Bound(multipliers(d, r.Dual, 1), true); math.Abs(v-r.Objective) > 1e-6 {
			return fmt.Errorf("objective %v, but the duals %v prove %v", r.Objective, r.Dual, v)
		}
		return nil
	}
	return fmt.Errorf("%v (%s)", r.Status, r.Raw)
}

// multipliers are those of y times sign whose sides are finite.
func multipliers(d *milp.Data, y []float64, sign float64) (m []certificate.Multiplier) {
	for i, v := range y {
		v *= sign
		if v > 0 && !math.IsInf(d.RowLower[i], 0) || v < 0 && !math.IsInf(d.RowUpper[i], 0) {
			m = append(m, certificate.Multiplier{Row: int32(i), Value: v})
		}
	}
	return m
}

// lpLimits: limits are answers, and the solve after them is not held by them.
func lpLimits(t *testing.T, e solvers.LPEngine) {
	d := newMultiKnapsack(60, 400, 7).model().Data()
	p := open(t, e, &d)
	defer p.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	r, err := p.Solve(ended, solvers.LPOptions{})
	if err != nil || r.Status != solvers.NoSolution || time.Since(begin) > grace {
		t.Errorf("cancelled: %+v, %v after %v", r, err, time.Since(begin))
	}
	if r, err = p.Solve(t.Context(), solvers.LPOptions{Time: time.Minute}); err != nil || r.Status != solvers.Optimal {
		t.Errorf("afterwards: %+v, %v", r, err)
	}
	small := text(lp).Data() // is solved before anybody else wakes up
	q := open(t, e, &small)
	defer q.Close()
	if r, err = q.Solve(ended, solvers.LPOptions{}); err != nil || r.Status != solvers.NoSolution {
		t.Errorf("a small one, cancelled: %+v, %v", r, err)
	}
	if r, err = p.Solve(t.Context(), solvers.LPOptions{Attempt: 1, Iterations: 3}); err != nil || r.Stop != solvers.Iterations {
		t.Errorf("three iterations: %+v, %v", r, err)
	}
	for range 3 {
		if r, err = p.Solve(t.Context(), solvers.LPOptions{Attempt: 1, Time: time.Nanosecond}); err != nil || r.Status != solvers.NoSolution &&
			r.Status != solvers.Optimal {
			t.Errorf("no time: %+v, %v", r, err)
		}
	}
}

// lpCutoff: a program that is above the cutoff may end there, with multipliers
// that prove it; one that is below is solved.
func lpCutoff(t *testing.T, e solvers.LPEngine) {
	d := newSetCover(30, 60, 5).model().Data()
	p := open(t, e, &d)
	defer p.Close()
	r, err := p.Solve(t.Context(), solvers.LPOptions{})
	if err != nil || r.Status != solvers.Optimal {
		t.Fatalf("%+v, %v", r, err)
	}
	best := r.Objective
	for _, cutoff := range []float64{best - 1, best - 0.01, best + 1} {
		r, err := p.Solve(t.Context(), solvers.LPOptions{Attempt: 2, Cutoff: solvers.Some(cutoff)})
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Status == solvers.Optimal && math.Abs(r.Objective-best) < 1e-6:
		case r.Stop == solvers.Objective && cutoff < best:
			if v := certificate.NewModel(&d, inf).Bound(multipliers(&d, r.Dual, 1), true); v < cutoff-1e-6 {
				t.Errorf("cut off at %v by multipliers that prove %v", cutoff, v)
			}
		default:
			t.Errorf("cutoff %v of %v: %+v", cutoff, best, r)
		}
	}
}
