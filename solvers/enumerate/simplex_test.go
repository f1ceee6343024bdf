package enumerate

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

var inf = math.Inf(1)

func never() bool { return false }

// TestSimplexProves checks random programs by definition. An optimum is proven
// by a feasible point and feasible duals of the same objective; infeasibility
// is refuted if the program was made around a point; unboundedness is confirmed
// by a bound on all columns that lets the objective grow with it.
func TestSimplexProves(t *testing.T) {
	seen := map[verdict]int{}
	testfile.Property(t, func(t *rapid.T) {
		l, around := randomLinear(t)
		v, x, dual := l.solve(never)
		seen[v]++
		switch v {
		case optimal:
			checkPoint(t, l, x)
			checkDuals(t, l, x, dual)
		case infeasible:
			if around {
				t.Fatalf("infeasible, but made around a point: %+v", l)
			}
			checkInfeasible(t, l)
		case unbounded:
			checkUnbounded(t, l)
		default:
			t.Fatalf("verdict %d", v)
		}
	})
	for _, v := range []verdict{optimal, infeasible, unbounded} {
		if seen[v] == 0 {
			t.Errorf("verdict %d never came up: the test says little", v)
		}
	}
}

// randomLinear draws a program with small integral data, by chance one with
// sides made to contain a point.
func randomLinear(t *rapid.T) (l *linear, around bool) {
	n, m := rapid.IntRange(1, 5).Draw(t, "columns"), rapid.IntRange(0, 6).Draw(t, "rows")
	number := rapid.IntRange(-4, 4)
	draw := func(label string) float64 { return float64(number.Draw(t, label)) }
	around = rapid.Bool().Draw(t, "around")
	l = &linear{a: make([]float64, m*n)}
	point := make([]float64, n)
	for j := range n {
		point[j] = draw("point")
		lo, up := point[j]-math.Abs(draw("below")), point[j]+math.Abs(draw("above"))
		lo, up = loosen(t, lo, up)
		l.cost, l.lower, l.upper = append(l.cost, draw("cost")), append(l.lower, lo), append(l.upper, up)
	}
	for i := range m {
		at := 0.
		for j := range n {
			l.a[i*n+j] = draw("a")
			at += l.a[i*n+j] * point[j]
		}
		if !around {
			at = draw("at")
		}
		lo, up := loosen(t, at-math.Abs(draw("less")), at+math.Abs(draw("more")))
		l.rowLower, l.rowUpper = append(l.rowLower, lo), append(l.rowUpper, up)
	}
	return l, around
}

func loosen(t *rapid.T, lo, up float64) (float64, float64) {
	switch rapid.IntRange(0, 4).Draw(t, "loose") {
	case 0:
		lo = -inf
	case 1:
		up = inf
	case 2:
		lo, up = -inf, inf
	}
	return lo, up
}

const accuracy = 1e-7

func checkPoint(t *rapid.T, l *linear, x []float64) {
	n := len(l.cost)
	for j, v := range x {
		if v < l.lower[j]-accuracy || v > l.upper[j]+accuracy {
			t.Fatalf("x[%d] = %v outside [%v, %v]", j, v, l.lower[j], l.upper[j])
		}
	}
	for i := range l.rowLower {
		at := 0.
		for j := range n {
			at += l.a[i*n+j] * x[j]
		}
		if at < l.rowLower[i]-accuracy || at > l.rowUpper[i]+accuracy {
			t.Fatalf("row %d = %v outside [%v, %v]", i, at, l.rowLower[i], l.rowUpper[i])
		}
	}
}

// checkDuals checks that the dual objective Σ y_i side_i + Σ d_j bound_j, with
// the side that the sign of the multiplier asks for, is the primal one.
func checkDuals(t *rapid.T, l *linear, x, dual []float64) {
	n := len(l.cost)
	primal, bound := 0., 0.
	for j := range n {
		primal += l.cost[j] * x[j]
	}
	add := func(y, lo, up float64) {
		switch {
		case y > accuracy:
			bound += y * lo
		case y < -accuracy:
			bound += y * up
		}
	}
	for i, y := range dual {
		add(y, l.rowLower[i], l.rowUpper[i])
	}
	for j := range n {
		d := l.cost[j]
		for i, y := range dual {
			d -= y * l.a[i*n+j]
		}
		add(d, l.lower[j], l.upper[j])
	}
	if !(math.Abs(primal-bound) <= accuracy*math.Max(1, math.Abs(primal))*10) {
		t.Fatalf("objective %v, but the duals %v prove %v", primal, dual, bound)
	}
}

// checkInfeasible solves for the least total violation, which must be positive.
func checkInfeasible(t *rapid.T, l *linear) {
	n, m := len(l.cost), len(l.rowLower)
	e := &linear{
		cost: make([]float64, n+2*m), lower: slices.Concat(l.lower, make([]float64, 2*m)),
		upper:    slices.Concat(l.upper, slices.Repeat([]float64{inf}, 2*m)),
		rowLower: l.rowLower, rowUpper: l.rowUpper, a: make([]float64, m*(n+2*m)),
	}
	for i := range m {
		copy(e.a[i*(n+2*m):], l.a[i*n:(i+1)*n])
		e.a[i*(n+2*m)+n+2*i], e.a[i*(n+2*m)+n+2*i+1] = 1, -1
		e.cost[n+2*i], e.cost[n+2*i+1] = 1, 1
	}
	v, x, dual := e.solve(never)
	if v != optimal {
		t.Fatalf("elastic program: verdict %d", v)
	}
	checkPoint(t, e, x)
	checkDuals(t, e, x, dual)
	missed := 0.
	for _, s := range x[n:] {
		missed += s
	}
	if missed < 1e-6 {
		t.Fatalf("called infeasible, but the least violation is %v", missed)
	}
}

// checkUnbounded solves the program in a box, and in a tenfold one.
func checkUnbounded(t *rapid.T, l *linear) {
	objective := func(size float64) float64 {
		b := *l
		b.lower, b.upper = slices.Clone(l.lower), slices.Clone(l.upper)
		for j := range b.lower {
			b.lower[j], b.upper[j] = math.Max(b.lower[j], -size), math.Min(b.upper[j], size)
		}
		v, x, dual := b.solve(never)
		if v != optimal {
			t.Fatalf("in a box of %v: verdict %d", size, v)
		}
		checkPoint(t, &b, x)
		checkDuals(t, &b, x, dual)
		sum := 0.
		for j, c := range b.cost {
			sum += c * x[j]
		}
		return sum
	}
	if near, far := objective(1e4), objective(1e5); far > near-100 {
		t.Fatalf("called unbounded, but the objective is %v in a box and %v in a larger one", near, far)
	}
}

// TestSimplexStops checks that a program is given up when asked to.
func TestSimplexStops(t *testing.T) {
	l := &linear{cost: []float64{-1, -1}, lower: []float64{0, 0}, upper: []float64{4, 5}}
	for polls := range 10 {
		left := polls
		v, x, _ := l.solve(func() bool {
			left--
			return left < 0
		})
		switch {
		case left < 0 && v != interrupted:
			t.Errorf("went on to verdict %d", v)
		case left >= 0 && (v != optimal || !slices.Equal(x, []float64{4, 5})):
			t.Errorf("verdict %d at %v", v, x)
		}
	}
}

// TestBeale solves the example of Beale (1955), on which the simplex method
// with the usual pivots cycles.
func TestBeale(t *testing.T) {
	l := &linear{
		cost: []float64{-0.75, 150, -0.02, 6}, lower: make([]float64, 4), upper: []float64{inf, inf, inf, inf},
		rowLower: []float64{-inf, -inf, -inf}, rowUpper: []float64{0, 0, 1},
		a: []float64{
			0.25, -60, -0.04, 9,
			0.5, -90, -0.02, 3,
			0, 0, 1, 0,
		},
	}
	v, x, _ := l.solve(never)
	if v != optimal || math.Abs(-0.75*x[0]+150*x[1]-0.02*x[2]+6*x[3]+0.05) > 1e-9 {
		t.Errorf("verdict %d at %v", v, x)
	}
}
