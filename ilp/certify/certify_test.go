package certify

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/highs"
)

var (
	inf  = math.Inf(1)
	head = certificate.Certificate{Instance: strings.Repeat("0", 64), Problem: "remat", Formulation: "random", Backend: "highs"}
)

func open(t rapid.TB, d *milp.Data) solvers.LP {
	t.Helper()
	lp, err := highs.Engine{}.OpenLP(d)
	if err != nil {
		t.Fatal(err)
	}
	return lp
}

// models draws small models with an optimum or none: whole and continuous
// columns, some without upper bounds but bounded by rows or costs.
func models() *rapid.Generator[*milp.Model] {
	return rapid.Custom(func(t *rapid.T) *milp.Model {
		m := milp.New("random")
		rows := m.Group("row", "")
		var objective, e milp.Expr
		var x []milp.Var
		small := rapid.IntRange(-4, 6)
		unit := rapid.SampledFrom([]float64{1, 1, 0.25, 0.1, 1e-3}).Draw(t, "unit")
		for range rapid.IntRange(1, 6).Draw(t, "columns") {
			kind := rapid.SampledFrom([]milp.Kind{milp.Binary, milp.Integer, milp.Continuous}).Draw(t, "kind")
			lower, upper := 0., 1.
			if kind != milp.Binary {
				lower = float64(small.Draw(t, "lower"))
				upper = lower + float64(rapid.IntRange(0, 4).Draw(t, "width"))
			}
			cost := small.Draw(t, "cost")
			if kind == milp.Continuous && cost > 0 && rapid.Bool().Draw(t, "without bound") {
				upper = inf
			}
			v := m.Var("x", kind, lower, upper)
			objective.Add(unit*float64(cost), v)
			x = append(x, v)
		}
		for range rapid.IntRange(1, 4).Draw(t, "rows") {
			e.Reset()
			for _, v := range x {
				e.Add(float64(small.Draw(t, "entry")), v)
			}
			side := float64(rapid.IntRange(-5, 15).Draw(t, "side"))
			switch rapid.IntRange(0, 4).Draw(t, "relation") {
			case 0:
				rows.Equal(&e, side)
			case 1, 2:
				rows.AtLeast(&e, side)
			default:
				rows.AtMost(&e, side)
			}
		}
		objective.Const = unit * float64(small.Draw(t, "offset"))
		m.Minimize(&objective)
		return m
	})
}

// optimum by enumeration; +Inf if there is no solution.
func optimum(t *rapid.T, m *milp.Model) float64 {
	r, err := enumerate.New().Solve(context.Background(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	switch r.Status {
	case solvers.Optimal:
		return r.Obj
	case solvers.Infeasible:
		return inf
	}
	t.Fatalf("enumeration says %v (%s)", r.Status, r.Note)
	return 0
}

// value of the bound in the program's units.
func value(c *certificate.Certificate) float64 {
	v, _ := new(big.Rat).Quo(c.Bound, new(big.Rat).SetFloat64(c.Scale)).Float64()
	return v
}

// TestTree: the optimum found by enumeration is certified, infeasibility, too;
// and a search that is cut short certifies no more.
func TestTree(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m := models().Draw(t, "model")
		d := m.Data()
		best := optimum(t, m)
		if math.IsInf(best, 1) { // rays of columns without bounds would have to be fractions
			d.Upper = slices.Clone(d.Upper)
			for j, upper := range d.Upper {
				d.Upper[j] = math.Min(upper, 100)
			}
		}
		lp := open(t, &d)
		defer lp.Close()
		head := head
		head.Scale = rapid.SampledFrom([]float64{0, 1, 0.125}).Draw(t, "scale")
		r, err := Tree(context.Background(), lp, &d, head, Options{Goal: best})
		if err != nil {
			t.Fatal(err)
		}
		if r.Certificate == nil || !r.Closed || r.Certificate.Infeasible != math.IsInf(best, 1) {
			t.Fatalf("optimum %v: %+v", best, r)
		}
		if v := 0.; !math.IsInf(best, 1) {
			if v = value(r.Certificate); math.Abs(v-best) > 1e-9*math.Abs(best)+1e-7 {
				t.Fatalf("optimum %v, certified %v", best, v)
			}
		}
	})
}

// TestLimits: what is cut short, or has a goal that is wrong, is a bound all the
// same.
func TestLimits(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m := models().Draw(t, "model")
		d := m.Data()
		best := optimum(t, m)
		lp := open(t, &d)
		defer lp.Close()
		goal := rapid.SampledFrom([]float64{best, best + 1, best - 0.5, 1e6, inf}).Draw(t, "goal")
		if math.IsInf(best, 1) {
			goal = 1000
		}
		r, err := Tree(context.Background(), lp, &d, head, Options{
			Goal: goal, Nodes: rapid.IntRange(1, 5).Draw(t, "nodes"), Memory: rapid.Int64Range(0, 100).Draw(t, "memory"),
		})
		if err != nil {
			t.Fatal(err)
		}
		switch c := r.Certificate; {
		case c == nil && r.Note == "":
			t.Fatalf("nothing is proved: %+v", r)
		case c == nil:
		case c.Infeasible || value(c) > best+1e-9*math.Abs(best)+1e-9:
			t.Fatalf("optimum %v: %+v, bound %v", best, r, c.Bound)
		}
	})
}

// liar is a library that is wrong now and then.
type liar struct {
	solvers.LP
	r *rand.Rand
}

func (l liar) Solve(ctx context.Context, o solvers.LPOptions) (*solvers.LPResult, error) {
	r, err := l.LP.Solve(ctx, o)
	if err != nil {
		return nil, err
	}
	switch l.r.IntN(6) {
	case 0:
		for i := range r.Dual {
			r.Dual[i] += l.r.NormFloat64()
		}
	case 1:
		r.Status, r.Ray = solvers.Infeasible, r.Dual
	case 2:
		*r = solvers.LPResult{Status: solvers.Numerical, Objective: math.NaN()}
	case 3:
		for j := range r.X {
			r.X[j] = math.Round(r.X[j])
		}
	case 4:
		for i := range r.Ray {
			r.Ray[i] = math.NaN()
		}
	}
	return r, nil
}

// TestLies: whatever the library says, what is certified is true.
func TestLies(t *testing.T) {
	closed := 0
	testfile.Property(t, func(t *rapid.T) {
		m := models().Draw(t, "model")
		d := m.Data()
		best := optimum(t, m)
		lp := open(t, &d)
		defer lp.Close()
		seed := rapid.Uint64().Draw(t, "seed")
		r, err := Tree(context.Background(), liar{lp, rand.New(rand.NewPCG(seed, 1))}, &d, head, Options{Goal: best, Nodes: 200})
		if err != nil {
			t.Fatal(err)
		}
		if r.Closed {
			closed++
		}
		if c := r.Certificate; c != nil && !c.Infeasible && value(c) > best+1e-9*math.Abs(best)+1e-9 || c != nil && c.Infeasible &&
			!math.IsInf(best, 1) {
			t.Fatalf("optimum %v: %+v, bound %v", best, r, c.Bound)
		}
	})
	if closed == 0 {
		t.Error("no proof at all")
	}
}

// TestUnbounded: what has no bound says why.
func TestUnbounded(t *testing.T) {
	m := milp.New("falls")
	x := m.Var("x", milp.Continuous, -inf, inf)
	m.Group("row", "").AtMost(new(milp.Expr).Add(1, x), 3)
	m.Minimize(new(milp.Expr).Add(1, x))
	d := m.Data()
	lp := open(t, &d)
	defer lp.Close()
	r, err := Tree(t.Context(), lp, &d, head, Options{Goal: 0})
	if err != nil || r.Certificate != nil || !strings.Contains(r.Note, "no linear program gave a bound; the rows imply none of 1 column") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCrossed: a box without whole numbers needs no multipliers.
func TestCrossed(t *testing.T) {
	m := milp.New("between")
	x := m.Var("x", milp.Integer, 0.2, 0.8)
	m.Group("row", "").AtMost(new(milp.Expr).Add(1, x), 3)
	m.Minimize(new(milp.Expr).Add(1, x))
	d := m.Data()
	lp := open(t, &d)
	defer lp.Close()
	r, err := Tree(t.Context(), lp, &d, head, Options{Goal: inf, Nodes: 1})
	if err != nil || !r.Closed || !r.Certificate.Infeasible {
		t.Errorf("%+v, %v", r, err)
	}
}

// covering is a random set covering model of many whole columns.
func covering(rows, columns int) *milp.Model {
	r := rand.New(rand.NewPCG(3, 4))
	m := milp.New("covering")
	x := m.List("x", columns, milp.Binary, 0, 1)
	g := m.Group("row", "")
	var objective milp.Expr
	for j := range columns {
		objective.Add(1+r.Float64(), x.At(j))
	}
	for range rows {
		var e milp.Expr
		for _, j := range r.Perm(columns)[:5] {
			e.Add(1, x.At(j))
		}
		g.AtLeast(&e, 2)
	}
	m.Minimize(&objective)
	return m
}

// TestTime: time and cancellation end a search with what it has proved; the
// longer, the more.
func TestTime(t *testing.T) {
	m := covering(60, 50)
	d := m.Data()
	var bounds []float64
	for _, nodes := range []int{1, 30} {
		lp := open(t, &d)
		r, err := Tree(t.Context(), lp, &d, head, Options{Goal: 1000, Nodes: nodes})
		lp.Close()
		if err != nil || r.Closed || r.Ended != solvers.Nodes {
			t.Fatalf("%+v, %v", r, err)
		}
		bounds = append(bounds, value(r.Certificate))
	}
	if bounds[1] <= bounds[0] {
		t.Errorf("bounds %v", bounds)
	}
	lp := open(t, &d)
	defer lp.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	r, err := Tree(ctx, lp, &d, head, Options{Goal: 1000})
	if err != nil || r.Ended != solvers.Time || time.Since(begin) > 30*time.Second {
		t.Errorf("%+v, %v after %v", r, err, time.Since(begin))
	}
}

// TestGranularity: whole costs need half the proof.
func TestGranularity(t *testing.T) {
	m := milp.New("whole")
	x := m.List("x", 3, milp.Binary, 0, 1)
	var e milp.Expr
	for j := range 3 {
		e.Add(2, x.At(j))
	}
	m.Group("row", "").AtLeast(&e, 3)
	m.Minimize(&e)
	d := m.Data()
	lp := open(t, &d)
	defer lp.Close()
	r, err := Tree(t.Context(), lp, &d, head, Options{Goal: 4, Nodes: 1})
	if err != nil || !r.Closed || r.Certificate.Granularity != 2 || value(r.Certificate) != 4 {
		t.Errorf("%+v, %v, %v", r, r.Certificate, err)
	}
}

// breaking is a library that fails after a few solves.
type breaking struct {
	solvers.LP
	left int
}

func (b *breaking) Solve(ctx context.Context, o solvers.LPOptions) (*solvers.LPResult, error) {
	if b.left--; b.left < 0 {
		return nil, solvers.ErrSolver
	}
	return b.LP.Solve(ctx, o)
}

// TestBreaks: what is proved before a library breaks is kept.
func TestBreaks(t *testing.T) {
	m := covering(60, 50)
	d := m.Data()
	for _, solves := range []int{0, 1, 40} {
		lp := open(t, &d)
		r, err := Tree(t.Context(), &breaking{lp, solves}, &d, head, Options{Goal: 1000})
		lp.Close()
		if err != nil || r.Certificate == nil || r.Ended != solvers.Unknown || r.Note != solvers.ErrSolver.Error() {
			t.Errorf("after %d solves: %+v, %v", solves, r, err)
		}
	}
}

// TestProbes: of models that libraries answer wrongly the optimum is certified, and
// nothing better, whatever is claimed.
func TestProbes(t *testing.T) {
	for _, p := range solvers.Probes() {
		if math.IsInf(p.Optimum, 0) {
			continue // there is nothing to certify
		}
		d, best := p.Model().Data(), p.Optimum
		if d.Sense == milp.Maximize {
			cost := make([]float64, len(d.Cost))
			for j, c := range d.Cost {
				cost[j] = -c
			}
			d.Sense, d.Cost, d.Offset, best = milp.Minimize, cost, -d.Offset, -best
		}
		for _, goal := range []float64{best, best + 1, inf} {
			lp := open(t, &d)
			r, err := Tree(t.Context(), lp, &d, head, Options{Goal: goal})
			lp.Close()
			if err != nil || r.Certificate == nil || r.Certificate.Infeasible {
				t.Errorf("%s, goal %v: %+v, %v", p.Name, goal, r, err)
				continue
			}
			if v := value(r.Certificate); v > best || v < best-1e-6*math.Max(1, math.Abs(best)) {
				t.Errorf("%s, goal %v: %v is certified, the optimum is %v", p.Name, goal, v, best)
			}
		}
	}
}

// late is a library that never has the time for a linear program.
type late struct{ solvers.LP }

func (late) Solve(context.Context, solvers.LPOptions) (*solvers.LPResult, error) {
	return &solvers.LPResult{Status: solvers.NoSolution, Stop: solvers.Time, Objective: math.NaN()}, nil
}

// TestAscent: without a linear program the certificate proves what any row proves
// alone, as the sum of all loads does, and never more than the optimum.
func TestAscent(t *testing.T) {
	gained := 0
	testfile.Property(t, func(t *rapid.T) {
		m := models().Draw(t, "model")
		d := m.Data()
		best := optimum(t, m)
		if math.IsInf(best, 1) {
			return // a matter of rays
		}
		lp := open(t, &d)
		defer lp.Close()
		r, err := Tree(context.Background(), late{lp}, &d, head, Options{Goal: best})
		if err != nil {
			t.Fatal(err)
		}
		model, alone := certificate.NewModel(&d, best), math.Inf(-1)
		for i := range d.RowLower {
			for k := d.Start[i]; k < d.Start[i+1]; k++ {
				if v := d.Val[k]; v != 0 {
					y := []certificate.Multiplier{{Row: int32(i), Value: d.Cost[d.Col[k]] / v}}
					alone = max(alone, model.Bound(nil, true), model.Bound(y, true))
				}
			}
		}
		tiny := 1e-9 * (1 + math.Abs(alone))
		switch c := r.Certificate; {
		case c == nil && !math.IsInf(alone, -1):
			if model.Crossed() || math.IsInf(model.Bound(nil, true), -1) {
				return
			}
			t.Fatalf("nothing is certified (%s), a row alone proves %v", r.Note, alone)
		case c == nil || c.Infeasible:
		case value(c) > best+tiny || value(c) < min(alone, best)-tiny:
			t.Fatalf("certified %v, a row alone proves %v, the optimum is %v", value(c), alone, best)
		case value(c) > model.Bound(nil, true)+tiny:
			gained++
		}
	})
	if gained == 0 {
		t.Error("no row ever proved anything")
	}
}

// counted counts linear programs.
type counted struct {
	solvers.LP
	solves int
}

func (l *counted) Solve(ctx context.Context, o solvers.LPOptions) (*solvers.LPResult, error) {
	l.solves++
	return l.LP.Solve(ctx, o)
}

// TestRootIsOneLP: a bound at the root costs one linear program, solved once.
func TestRootIsOneLP(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m := models().Draw(t, "model")
		d := m.Data()
		best := optimum(t, m)
		if math.IsInf(best, 1) {
			return // it may take other ways to prove that
		}
		lp := &counted{LP: open(t, &d)}
		defer lp.Close()
		r, err := Tree(t.Context(), lp, &d, head, Options{Goal: best, Nodes: 1})
		if err != nil || r.Certificate == nil || value(r.Certificate) > best+1e-9*(1+math.Abs(best)) {
			t.Fatalf("%+v, %v, the optimum is %v", r, err, best)
		}
		if lp.solves > 1 || r.Nodes > 1 {
			t.Fatalf("%d linear programs, %d nodes", lp.solves, r.Nodes)
		}
	})
}
