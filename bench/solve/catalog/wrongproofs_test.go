package catalog_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/model/exhaustive"
	optimumremat "workbench/model/exhaustive/remat"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// wrongProofs are instances on which methods once printed wrong proven results:
// what they said then, and the truth, by exhaustive search, by the same instance
// in other units, or by a verified plan.
var wrongProofs = []struct {
	file, problem     string
	memory, bandwidth float64
	truth             float64 // seconds; infinite: there is no plan
	best              string  // the method that said something else; "": the default
	said              string
}{
	{"optimum-halved", plan.Remat, 10000000004, 0, 1, "", "2 s, optimal"},
	{"nanoseconds", plan.WeightOffload, 14, 1e9, 35e-9, "", "36 ns, optimal"},
	{"microseconds", plan.WeightOffload, 40, 1e6, 38e-6, "", "38.5 µs, optimal"},
	{"magnitudes", plan.WeightOffload, 2000000, 3, 16.0 / 3, "", "a bound of 5.667 s"},
	{"gigabyte-and-kilobyte", plan.WeightOffload, 2e9, 1e9, 501e-6, "", "a bound of 502 µs"},
	{"stages", plan.Remat, 16000000008, 0, 23, "checkmate-plain", "32 s, optimal"},
	{"slightly-above", plan.Remat, 1000201092, 0, math.NaN(), "chain-milp", "a bound 2e-7 above the optimum"},
	{"bound-tolerance", plan.Remat, 1010110007, 0, math.NaN(), "chain-milp", "a bound above the optimum"},
	{"edge", plan.Remat, 3999999998, 0, math.Inf(1), "checkmate", "an error"},
	{"edge", plan.Remat, 4000000000, 0, math.Inf(1), "checkmate", "optimal"},
	{"edge", plan.Remat, 4000000001, 0, math.Inf(1), "checkmate", "optimal"},
	{"crossed", plan.WeightOffload, 0.1, 0.2, 9, "", "infeasible"},
	// Models of these HiGHS 1.10.0 answers wrongly, cold.
	{"sixteen", plan.WeightOffload, 6e9, 1000, 15e6, "", "16e6 s, optimal"},
	{"thirteen", plan.WeightOffload, 10, 1, 13, "", "weights-exact alone: 14 s, optimal"},
	{"instants", plan.WeightOffload, 2000002406, 1e18, 8e-6, "", "an error: the search's plan breaks a rule"},
	{"nearly-fits", plan.WeightOffload, 7000002, 1, 6000004, "", "infeasible"}, // certified to 1e-6
}

// Every method on every backend says nothing that is wrong, and the one that did
// says the truth.
func TestWrongProofs(t *testing.T) {
	for _, x := range wrongProofs {
		t.Run(x.file, func(t *testing.T) {
			if strings.HasSuffix(x.file, "oseconds") {
				testfile.Long(t) // the best method takes all of its limit, and may need more
			}
			t.Parallel()
			p, err := catalog.FindProblem(x.problem)
			if err != nil {
				t.Fatal(err)
			}
			in, err := solve.Load(filepath.Join("..", "..", "..", "testdata", "wrong-proofs", x.file+".json"), nil)
			if err != nil {
				t.Fatal(err)
			}
			truth := x.truth
			if math.IsNaN(truth) {
				if truth, _, err = optimumremat.Search(in.Chain(), x.memory, 1<<22); errors.Is(err, exhaustive.ErrInfeasible) {
					truth = math.Inf(1)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			best := x.best
			if best == "" {
				best = catalog.DefaultMethod(p, in)
			}
			found := false
			for _, m := range catalog.MethodsFor(p, in) {
				for _, backend := range testfile.Few(1, "highs", "lpsolve") {
					if !m.Solver && backend != backends.Names()[0] || m.Kind == solve.Heuristic && m.Name != best {
						continue
					}
					limit, short := 2*time.Second, 100*time.Millisecond // wrong proofs came at once
					if m.Name == best {
						limit, short = 5*time.Second, time.Second // it has to get there
					}
					if testing.Short() {
						limit = short
					}
					r := runWith(t, p, m, in, backend, platform.Platform{Memory: x.memory, Bandwidth: x.bandwidth}, limit)
					wrong(t, m.Name+" on "+backend, r, truth)
					if m.Name != best || backend != backends.Names()[0] {
						continue
					}
					found = true
					switch {
					case math.IsInf(truth, 1):
						if r.Status != solve.Infeasible {
							t.Errorf("%s: %s %s, it is infeasible", m.Name, r.Status, r.Error)
						}
					case m.Kind != solve.Relaxed && (r.Makespan == nil || math.Abs(*r.Makespan-truth) > 1e-8*truth): // a few instants
						t.Errorf("%s: %s %v %s, the truth is %v s; once it said %s", m.Name, r.Status, r.Makespan, r.Error, truth, x.said)
					}
				}
			}
			if !found {
				t.Errorf("there is no method %s", best)
			}
		})
	}
}

// wrong reports what a result on an instance with an optimum says wrongly.
func wrong(t *testing.T, who string, r *solve.Result, truth float64) {
	t.Helper()
	switch {
	case r.Status == solve.Failed && !errors.Is(r.Err, solve.ErrInput):
		t.Errorf("%s: %s", who, r.Error)
	case r.Status == solve.Infeasible && !math.IsInf(truth, 1):
		t.Errorf("%s: infeasible, %s; the optimum is %v s", who, r.Error, truth)
	case r.Makespan != nil && *r.Makespan < truth*(1-1e-9) && len(assumed(r)) == 0:
		t.Errorf("%s: a plan of %v s, the optimum is %v s", who, *r.Makespan, truth)
	}
	for _, b := range r.Bounds {
		if b.Value > truth*(1+1e-9) {
			t.Errorf("%s: %v s by %s (%v), the optimum is %v s", who, b.Value, b.By, b.Assumptions, truth)
		}
	}
}

func assumed(r *solve.Result) (all []string) {
	for _, b := range r.Bounds {
		all = append(all, b.Assumptions...)
	}
	return all
}

// Networks on which the default method ended in an error a byte from a
// breakpoint.
func TestEdgesOfNetworks(t *testing.T) {
	for spec, memory := range map[string]float64{"zoo:vgg16": 2125856767, "zoo:resnet18": 517051391} {
		in, err := solve.Load(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := catalog.FindProblem(plan.Remat)
		if err != nil {
			t.Fatal(err)
		}
		m, err := catalog.FindMethod(p, catalog.DefaultMethod(p, in))
		if err != nil {
			t.Fatal(err)
		}
		r := runWith(t, p, m, in, backends.Names()[0], platform.Platform{Memory: memory}, 5*time.Second)
		if !slices.Contains([]solve.Status{solve.Optimal, solve.Feasible}, r.Status) {
			t.Errorf("%s with %v bytes: %s %s", spec, memory, r.Status, r.Error)
		}
	}
}

func runWith(t *testing.T, p *solve.Problem, m *solve.Method, in *solve.Instance, backend string, at platform.Platform,
	limit time.Duration,
) *solve.Result {
	t.Helper()
	s := solve.Setting{Platform: at, Threads: 1, Time: limit}
	if err := backends.Use(&s, backend, false); err != nil {
		t.Fatal(err)
	}
	return solve.Run(context.Background(), p, m, in, s)
}
