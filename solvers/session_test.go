package solvers_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Whatever changes in a model, a session that keeps its program, one that does not, and a
// new solve agree.
func TestSessionsAgree(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		whole := func(lo, up int, what string) float64 { return float64(rapid.IntRange(lo, up).Draw(t, what)) }
		m := milp.New("changing")
		rows := m.Group("row", "")
		warm, cold := solvers.NewSession(highs.New(), m), solvers.NewSession(lpsolve.New(), m)
		defer warm.Close()
		defer cold.Close()
		var x []milp.Var
		var handles []milp.Constr
		objective := func() {
			var e milp.Expr
			for _, v := range x {
				e.Add(whole(-4, 4, "cost"), v)
			}
			e.AddConst(whole(0, 1, "offset"))
			if rapid.Bool().Draw(t, "max") {
				m.Maximize(&e)
			} else {
				m.Minimize(&e)
			}
		}
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0, 1:
				var entries []milp.Entry
				for _, c := range handles {
					entries = append(entries, milp.Entry{Row: c, Coef: whole(-3, 3, "entry")})
				}
				kind := rapid.SampledFrom([]milp.Kind{milp.Continuous, milp.Integer}).Draw(t, "kind")
				x = append(x, m.Column("x", kind, whole(-3, 0, "lower"), whole(0, 4, "upper"), whole(-4, 4, "cost"), entries))
			case 2:
				var e milp.Expr
				for _, v := range x {
					e.Add(whole(-3, 3, "entry"), v)
				}
				handles = append(handles, rows.AtMost(&e, whole(-6, 9, "side")))
			case 3:
				objective()
			case 4:
				for _, v := range x {
					m.SetBounds(v, whole(-3, 0, "lower"), whole(0, 4, "upper"))
				}
			case 5:
				if len(x) > 0 && len(handles) > 0 {
					m.SetCoef(rapid.SampledFrom(handles).Draw(t, "row"), rapid.SampledFrom(x).Draw(t, "column"), whole(-3, 3, "entry"))
				}
			case 6:
				if len(handles) > 0 {
					k := rapid.IntRange(0, len(handles)-1).Draw(t, "row")
					m.RemoveRow(handles[k])
					handles = slices.Delete(handles, k, k+1)
				}
			default:
				for _, c := range handles {
					m.SetSides(c, whole(-9, -5, "lower"), whole(-5, 9, "upper"))
				}
			}
			a, err := warm.Solve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b, err := cold.Solve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want, err := enumerate.New().Solve(t.Context(), m, solvers.Options{Relax: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*solvers.LPResult{a, b} {
				if r.Status != want.Status || want.Status == solvers.Optimal && math.Abs(r.Objective-want.Obj) > 1e-6 {
					t.Fatalf("%v %v (%s), want %v %v", r.Status, r.Objective, r.Raw, want.Status, want.Obj)
				}
				if r.Status == solvers.Optimal && (len(r.X) != m.NumCols() || m.NumCols() > 0 && len(r.Reduced) != m.NumCols()) {
					t.Fatalf("%+v of a model of %d columns", r, m.NumCols())
				}
			}
		}
	})
}

// A model with mistakes is refused, and the session goes on when it is given up.
func TestSessionRefuses(t *testing.T) {
	m := milp.New("wrong")
	x := m.Var("x", milp.Continuous, 0, 1)
	m.Group("g", "").AtMost(new(milp.Expr).Add(math.NaN(), x), 1)
	s := solvers.NewSession(highs.New(), m)
	defer s.Close()
	if _, err := s.Solve(t.Context()); err == nil {
		t.Error("a model with NaN is solved")
	}
}
