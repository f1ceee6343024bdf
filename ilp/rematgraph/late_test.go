package rematgraph

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"workbench/ilp/formulation"
	"workbench/model/certificate"
	optimum "workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// A plan may discard a result and make it again when all nodes have been computed, which no
// schedule of stages does. Models bind it only if it keeps what they assume.
func TestResultsMadeAgainAtTheEnd(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 17))
	b, late, bound := highs.New(), 0, 0
	for range testfile.Cases(4000) {
		g := random.Training(r, 1+r.IntN(3))
		large := r.IntN(len(g.Storages)) // addRow it there is little room
		g.Storages[large].Bytes += float64(20 + r.IntN(3))
		g.Storages[r.IntN(len(g.Storages))].Bytes += 10
		least, err := optimum.LeastMemory(g, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		p := platform.Platform{Memory: max(1, least+float64(r.IntN(3)))}
		makespan, best, err := optimum.Search(g, p.Memory, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if v := viewed(t, g); again(g, best) {
			late++
			n := v.N - 1
			for _, o := range []Options{
				{},
				{Ends: true},
				{Backward: true, Ends: true},
				{Backward: true, Ends: true, Contract: true},
				{Ends: true, Rows: [][2]int{{n, n}}},
			} {
				program, err := Strong(g, p, o)
				if err != nil {
					t.Fatal(err)
				}
				if slices.ContainsFunc(program.Assumptions, func(a string) bool { meets, known := v.Meets(best, a); return !meets || !known }) {
					continue
				}
				bound++
				s, err := b.Solve(t.Context(), program.Model, solvers.Options{Time: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				if objective, ok := s.Objective(); !ok || program.Objective(objective) > makespan*(1+1e-6) {
					t.Fatalf("%+v, which assumes %q, is %v and %v, a plan takes %v s\nmemory %v, %+v", o, program.Assumptions, s.Status,
						program.Objective(objective), makespan, p.Memory, g)
				}
			}
		}
	}
	t.Logf("%d of the best plans make results again at the end, which binds %d models", late, bound)
	if late < testfile.Cases(60) || bound < testfile.Cases(30) {
		t.Error("too few")
	}
}

// again reports whether a plan computes something when all nodes have been computed.
func again(g *training.Graph, p *plan.Plan) bool {
	done := map[string]bool{}
	for k := range p.Ops {
		if o := &p.Ops[k]; o.Op == plan.OpC {
			if len(done) == g.Len() {
				return true
			}
			done[o.Node] = true
		}
	}
	return false
}

// Where plan and bound have met without a model, a certificate that is asked for may take all the
// time there is; one that is not is a matter of seconds.
func TestWantedCertificatesTakeTheirTime(t *testing.T) {
	g := randomStep(rand.New(rand.NewPCG(1, 2)), 3)
	p := platform.Platform{Memory: 1000}
	for _, wanted := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		var left time.Duration
		r, err := Run(ctx, &formulation.Task{
			Backend: highs.New(), Document: wanted, Level: formulation.Full,
			Certify: func(ctx context.Context, p *formulation.Program, _ float64, _ formulation.Level) (*certificate.Certificate, error) {
				at, _ := ctx.Deadline()
				left = max(left, time.Until(at))
				return nil, errors.New("in this test there is none")
			},
		}, viewed(t, g), p)
		cancel()
		if err != nil || !r.Closed(0) || wanted != (left > time.Minute) || left == 0 {
			t.Errorf("wanted: %t, time %v, closed %t, %v", wanted, left, r.Closed(0), err)
		}
	}
}
