package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// network returns a chain of layers with forward and backward time, activation
// and weight each.
func network(input float64, layers ...[4]float64) *chain.Chain {
	c := &chain.Chain{Name: "test", Input: chain.Input{Activation: input}}
	for _, l := range layers {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: l[0], BackwardTime: l[1], Activation: l[2], Weight: l[3]})
	}
	return c
}

// cyclic returns a plan with bandwidth 1. Operations without tensor but of a
// weight's kind get it.
func cyclic(memory, period float64, ops ...plan.Op) *plan.Plan {
	for k := range ops {
		switch ops[k].Op {
		case plan.OpP, plan.OpO, plan.OpD:
			ops[k].Tensor = plan.TensorW
		}
	}
	return &plan.Plan{
		Format: plan.Format, Problem: plan.WeightOffload, Method: "test",
		Platform: platform.Platform{Memory: memory, Bandwidth: 1},
		Period:   &period, Ops: ops,
	}
}

func op(kind string, layer int, start, end float64) plan.Op {
	return plan.Op{Op: kind, Layer: layer, Start: start, End: end}
}

// twoLayers is a valid plan in which each weight leaves the GPU once and the
// memory is full while a backward runs.
//
//	compute  |B_2  |           |B_1  |F_1  |F_2  |
//	upload         |w_2  |           |w_1  |
//	prefetch             |w_1  |     |w_2  |
//	         0     2     4     6     8     10    12
func twoLayers() (*chain.Chain, *plan.Plan) {
	return network(0, [4]float64{2, 2, 0, 2}, [4]float64{2, 2, 0, 2}),
		cyclic(4, 12,
			op("B", 2, 0, 2), op("O", 2, 2, 4), op("D", 2, 4, 4),
			op("P", 1, 4, 6), op("B", 1, 6, 8), op("O", 1, 8, 10), op("P", 2, 8, 10),
			op("F", 1, 8, 10), op("D", 1, 10, 10), op("F", 2, 10, 12))
}

func mustVerify(t testing.TB, c *chain.Chain, p *plan.Plan) *plan.Report {
	t.Helper()
	r, err := plan.Verify(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestByHand(t *testing.T) {
	// errata.md 5: one layer whose gradient just fits.
	c := network(0, [4]float64{1, 1, 0, 1})
	r := mustVerify(t, c, cyclic(2, 2, op("B", 1, 0, 1), op("F", 1, 1, 2)))
	if !r.Valid() || r.PeakMemory != 2 || r.PeakOp != 0 || r.Makespan != 2 {
		t.Errorf("one layer: %+v", r)
	}
	c, p := twoLayers()
	r = mustVerify(t, c, p)
	if !r.Valid() || r.PeakMemory != 4 || r.Makespan != 12 {
		t.Errorf("two layers: %+v", r)
	}
}

// broken is a violation that a mutation must produce, without its words.
type broken struct {
	rule   string
	op     int
	time   float64
	amount float64
}

// Operations of twoLayers by index.
const (
	b2 = iota
	o2
	d2
	p1
	b1
	o1
	p2
	f1
	d1
	f2
)

// Each case breaks twoLayers in one way and lists everything that is then
// wrong, in the order of the report.
func TestMutations(t *testing.T) {
	move := func(k int, start float64) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			p.Ops[k].End += start - p.Ops[k].Start
			p.Ops[k].Start = start
		}
	}
	drop := func(ks ...int) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			slices.Sort(ks)
			for n, k := range ks {
				p.Ops = slices.Delete(p.Ops, k-n, k-n+1)
			}
		}
	}
	add := func(o plan.Op) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) {
			if o.Op != "F" && o.Op != "B" {
				o.Tensor = plan.TensorW
			}
			p.Ops = append(p.Ops, o)
		}
	}
	all := func(fs ...func(*chain.Chain, *plan.Plan)) func(*chain.Chain, *plan.Plan) {
		return func(c *chain.Chain, p *plan.Plan) {
			for _, f := range fs {
				f(c, p)
			}
		}
	}
	memory := func(m float64) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) { p.Platform.Memory = m }
	}
	period := func(x float64) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) { p.Period = &x }
	}
	set := func(k int, f func(*plan.Op)) func(*chain.Chain, *plan.Plan) {
		return func(_ *chain.Chain, p *plan.Plan) { f(&p.Ops[k]) }
	}
	roomy := memory(100)

	for _, x := range []struct {
		name   string
		mutate func(*chain.Chain, *plan.Plan)
		want   []broken
	}{
		{"nothing", func(*chain.Chain, *plan.Plan) {}, nil},
		{"more memory", roomy, nil},

		// Computations.
		{"F_2 missing", drop(f2), []broken{{plan.RuleMissing, -1, 0, 0}}},
		{"B_2 missing", drop(b2), nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, p := twoLayers()
			x.mutate(c, p)
			var got []broken
			for _, v := range mustVerify(t, c, p).Violations {
				got = append(got, broken{v.Rule, v.Op, v.Time, v.Amount})
				t.Log(v.Detail)
			}
			if diff := cmp.Diff(x.want, got, cmp.AllowUnexported(broken{}), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
	_ = all
	_ = add
	_ = set
	_ = move
	_ = period
}
