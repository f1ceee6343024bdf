package swap

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	optimumswap "workbench/model/exhaustive/swap"
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/swap"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyswap "workbench/model/verify/swap"
)

// method is one of the package with its parameters.
type method struct {
	name   string
	always bool // it finds a plan whenever there is one
	run    func(context.Context, *functions.Sequence, platform.Platform) (*plan.Plan, error)
}

func methods() []method {
	all := []method{
		{"naive", true, Naive},
		{"vdnn-swap", false, VDNNSwap},
		{"lms-grid", false, LMSGrid},
		{"lms-tuned", false, LMSTuned},
		{"window-search", true, WindowSearch},
		{"search", true, func(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
			return Search(ctx, s, p, 1)
		}},
	}
	for _, x := range [][2]int{{0, 1}, {1, 2}, {2, 1}} {
		all = append(all, method{
			fmt.Sprintf("lms%v", x), false,
			func(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
				return LMS(ctx, s, p, x[0], x[1])
			},
		}, method{
			fmt.Sprintf("lms-printed%v", x), false,
			func(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
				return LMSPrinted(ctx, s, p, x[0], x[1])
			},
		})
	}
	return all
}

// tester is what rapid.T and testing.T have in common.
type tester interface {
	Helper()
	Fatalf(string, ...any)
}

// verified fails unless p is valid and does what it claims.
func verified(t tester, s *functions.Sequence, p *plan.Plan) *plan.Report {
	t.Helper()
	r, err := verifyswap.Verify(s, p)
	if err != nil {
		t.Fatalf("%s: %v", p.Method, err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%s: %v %v\n%s", p.Method, r.Violations, r.ClaimErrors, show(s, p))
	}
	return r
}

// show prints a sequence and a plan.
func show(s *functions.Sequence, p *plan.Plan) string {
	var b strings.Builder
	for _, v := range s.Variables {
		fmt.Fprintf(&b, "%s: %g %s\n", v.ID, v.Size, v.Initial)
	}
	for i, f := range s.Functions {
		fmt.Fprintf(&b, "f_%d: %g s, uses", i+1, f.Time)
		for _, v := range f.Uses {
			fmt.Fprintf(&b, " %s", s.Variables[v].ID)
		}
		b.WriteString(", writes")
		for _, v := range f.Written() {
			fmt.Fprintf(&b, " %s", s.Variables[v].ID)
		}
		b.WriteByte('\n')
	}
	if p != nil {
		fmt.Fprintf(&b, "M = %g, β = %g\n", p.Platform.Memory, p.Platform.Bandwidth)
		for i := range p.Ops {
			fmt.Fprintf(&b, "%s [%g, %g]\n", p.Ops[i].String(), p.Ops[i].Start, p.Ops[i].End)
		}
	}
	return b.String()
}

// kinds marks the functions as forward and backward halves.
func kinds(s *functions.Sequence) {
	for i := range s.Functions {
		s.Functions[i].Kind = functions.Forward
		if i >= s.Len()/2 {
			s.Functions[i].Kind = functions.Backward
		}
	}
}

// Plans are valid, no method beats the exhaustive search, nor a bound, Naive, Window and Search always find a plan, Search is never worse
// than another, bounds are ones.
func TestAgainstExhaustiveSearch(t *testing.T) {
	cases, optimal, met := 0, 0, 0
	testfile.Property(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 7))
		s, memory, bandwidth := random.Swap(r, 5, 5)
		kinds(s)
		p := platform.Platform{Memory: memory, Bandwidth: bandwidth}
		want, _, err := optimumswap.Search(s, memory, bandwidth, 1, 1<<18)
		if errors.Is(err, exhaustive.ErrLimit) {
			return
		}
		if errors.Is(err, exhaustive.ErrInfeasible) {
			want = math.Inf(1)
		} else if err != nil {
			rt.Fatalf("%v", err)
		}
		checkMethods(rt, s, p, want)
		bounds, err := view.Bounds(s, p)
		if err != nil {
			return // checked by checkMethods
		}
		for _, b := range bounds {
			if b.Value > want*(1+1e-9) {
				rt.Fatalf("bound %s is %g, optimum %g\n%s, M = %g, β = %g", b.By, b.Value, want, show(s, nil), memory, bandwidth)
			}
		}
		best, err := Search(context.Background(), s, p, 1)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		if best.Claims.Makespan < bounds[0].Value*(1-1e-9) {
			rt.Fatalf("search has %g, the bound %s is %g\n%s", best.Claims.Makespan, bounds[0].By, bounds[0].Value, show(s, best))
		}
		cases++
		if best.Claims.Makespan <= want*(1+1e-6) {
			optimal++
		}
		if bounds[0].Value >= want*(1-1e-9) {
			met++
		}
	})
	t.Logf("%d cases; search has the optimum in %d, the bound in %d", cases, optimal, met)
	if float64(optimal) < 0.9*float64(cases) {
		t.Errorf("search has the optimum in %d cases of %d", optimal, cases)
	}
}

// checkMethods runs all methods. want is what no makespan is below; +Inf:
// there is no plan; NaN: unknown.
func checkMethods(t tester, s *functions.Sequence, p platform.Platform, want float64) {
	t.Helper()
	low, high, err := view.Range(s)
	if err != nil || low > high {
		t.Fatalf("range %g to %g, %v", low, high, err)
	}
	longest, found := math.Inf(1), math.NaN()
	for _, m := range methods() {
		got, err := m.run(context.Background(), s, p)
		var infeasible *plan.Infeasible
		switch {
		case errors.As(err, &infeasible):
			if !math.IsNaN(want) && !math.IsInf(want, 1) || infeasible.Memory != low || p.Memory >= low {
				t.Fatalf("%s: %v, but the optimum is %g, the least memory %g", m.name, err, want, low)
			}
			continue
		case math.IsInf(want, 1):
			t.Fatalf("%s: error %v, but there is no plan", m.name, err)
		case errors.Is(err, plan.ErrNoPlan) && !m.always:
			continue
		case err != nil:
			t.Fatalf("%s: %v\n%s, M = %g", m.name, err, show(s, nil), p.Memory)
		}
		T := verified(t, s, got).Makespan
		if T < want*(1-1e-9) {
			t.Fatalf("%s: %g beats the optimum %g\n%s", m.name, T, want, show(s, got))
		}
		if m.name == "search" {
			found = T
		} else {
			longest = min(longest, T)
		}
	}
	if found > longest*(1+1e-9) {
		t.Fatalf("search has %g, another method %g\n%s", found, longest, show(s, nil))
	}
	if p.Memory >= high && !math.IsInf(want, 1) {
		if T := max(found, 0); T > want*(1+1e-9) {
			t.Fatalf("search has %g in memory for everything, the optimum is %g", T, want)
		}
	}
}

// randomSequence is a larger sequence with times and sizes of many magnitudes.
func randomSequence(r *rand.Rand, n, variables int) *functions.Sequence {
	s := &functions.Sequence{Name: "random", Functions: make([]functions.Function, n)}
	number := func() float64 {
		switch r.IntN(8) {
		case 0:
			return 0
		case 1:
			return 1e-11 * r.Float64()
		}
		return r.ExpFloat64()
	}
	size := func() float64 { // whole, mostly of one magnitude
		return math.Floor(number() * math.Pow(10, float64([]int{1, 1, 1, 0, 6, 12}[r.IntN(6)])))
	}
	for v := range variables {
		x := functions.Variable{ID: fmt.Sprintf("v%d", v), Size: size()}
		x.Initial = []string{functions.Nowhere, functions.Nowhere, functions.Host, functions.Device}[r.IntN(4)]
		s.Variables = append(s.Variables, x)
		uses := map[int]bool{}
		for range 1 + r.IntN(4) {
			uses[r.IntN(n)] = true
		}
		for i := range n {
			if uses[i] {
				s.Functions[i].Uses = append(s.Functions[i].Uses, v)
			}
		}
	}
	for i := range s.Functions {
		f := &s.Functions[i]
		f.Time = number()
		if r.IntN(2) == 0 {
			f.Writes = []int{}
			for _, v := range f.Uses {
				if r.IntN(2) == 0 {
					f.Writes = append(f.Writes, v)
				}
			}
		}
	}
	kinds(s)
	return s
}

// Plans of larger sequences, with times and sizes of all magnitudes, are valid.
func TestPlansOfLargerSequences(t *testing.T) {
	testfile.Property(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 9))
		s := randomSequence(r, 1+r.IntN(16), 1+r.IntN(24))
		low, high, err := view.Range(s)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		p := platform.Platform{
			Memory:    math.Floor(low + (high-low)*rapid.Float64Range(0, 1.1).Draw(rt, "memory")),
			Bandwidth: math.Exp(r.NormFloat64()) * max(1, high),
		}
		checkMethods(rt, s, p, math.NaN())
		bounds, err := view.Bounds(s, p)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		best, err := Search(context.Background(), s, p, 1)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		if best.Claims.Makespan < bounds[0].Value*(1-1e-9) {
			rt.Fatalf("search has %g, the bound %s is %g\n%s", best.Claims.Makespan, bounds[0].By, bounds[0].Value, show(s, best))
		}
	})
}
