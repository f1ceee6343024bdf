package verify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/plan/plantest"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
	verifyjoin "workbench/model/verify/join"
	"workbench/model/verify/remat"
	"workbench/model/verify/rematgraph"
	"workbench/model/verify/replay"
	"workbench/model/verify/weightoffload"
)

// What cannot be replayed is an error, whichever way it is asked.
func TestNothingToReplay(t *testing.T) {
	c, onChain := threeLayers()
	g, onGraph := fiveNodes()
	j, onJoin := twoBranches()
	weights, cyclic := plantest.TwoLayers()
	period := 1.0
	with := func(p *plan.Plan, f func(*plan.Plan)) *plan.Plan {
		q := *p
		f(&q)
		return &q
	}
	nan := *g
	nan.Nodes = slices.Clone(g.Nodes)
	nan.Nodes[1].Time = math.NaN()
	huge := *c
	huge.Layers = slices.Clone(c.Layers)
	huge.Layers[1].Saved, huge.Layers[2].Saved = 1e308, 1e308
	hugeNodes := *g
	hugeNodes.Nodes = slices.Clone(g.Nodes)
	hugeNodes.Nodes[1].Memory = 1e308
	for _, x := range []struct {
		name string
		in   plan.Instance
		p    *plan.Plan
		is   error
		want string
	}{
		{"no plan", c, nil, plan.ErrUnreadable, "no plan"},
		{"no instance", nil, onChain, plan.ErrProblem, `"remat" on a nothing`},
		{"chain plan on a join", j, onChain, plan.ErrProblem, `"remat" on a join`},
		{"join plan on a chain", c, onJoin, plan.ErrProblem, `"join" on a chain`},
		{"weights on a graph", g, cyclic, plan.ErrProblem, `"weight-offload" on a graph`},
		{"period", c, with(onChain, func(p *plan.Plan) { p.Period = &period }), plan.ErrUnreadable, "period is 1; plans of remat do not repeat"},
		{"negative memory", g, with(onGraph, func(p *plan.Plan) { p.Platform.Memory = -1 }), plan.ErrUnreadable, "platform.memory is -1"},
		{"NaN memory", j, with(onJoin, func(p *plan.Plan) { p.Platform.Memory = math.NaN() }), plan.ErrUnreadable, "platform.memory is NaN"},
		{"no layers", &chain.Chain{}, onChain, plan.ErrUnreadable, "the instance is not valid: layers: a chain needs"},
		{"no nodes", &graph.Graph{}, onGraph, plan.ErrUnreadable, "the instance is not valid: nodes: a graph needs"},
		{"no branches", &join.Join{}, onJoin, plan.ErrUnreadable, "the instance is not valid: branches: a join needs"},
		{"NaN in a node", &nan, onGraph, plan.ErrUnreadable, "nodes[1].time: NaN is not finite"},
		{"sizes overflow", &huge, onChain, plan.ErrUnreadable, "all sizes together are"},
		{"sizes of nodes overflow", &hugeNodes, onGraph, plan.ErrUnreadable, "all sizes together are"},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, verified := verify.Replay(x.in, x.p)
			_, profiled := verify.Profile(x.in, x.p)
			_, summed := verify.Summarize(x.in, x.p)
			for _, err := range []error{verified, profiled, summed} {
				if !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.want) {
					t.Errorf("error %v, want %s", err, x.want)
				}
			}
		})
	}
	for what, err := range map[string]error{
		"no chain": second(remat.Verify(nil, onChain)), "no graph": second(rematgraph.VerifyGraph(nil, onGraph)),
		"no join":        second(verifyjoin.Verify(nil, onJoin)),
		"chain, no plan": second(remat.Verify(c, nil)), "graph, other problem": second(rematgraph.VerifyGraph(g, onJoin)),
	} {
		if !errors.Is(err, plan.ErrUnreadable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := verify.Profile(weights, cyclic); !errors.Is(err, plan.ErrProblem) {
		t.Errorf("profile of weight offloading: %v", err)
	}
	if r, err := verify.Replay(weights, cyclic); err != nil || !r.Valid() {
		t.Errorf("weight offloading: %v %v", r, err)
	}
	if r, err := verify.Replay(c, onChain); err != nil || !r.Valid() {
		t.Errorf("Verify of a chain: %v %v", r, err)
	}
}

func second(_ *plan.Report, err error) error { return err }

// Claims that differ are told apart from broken rules.
func TestClaimsOfSequences(t *testing.T) {
	c, p := threeLayers()
	p.Claims = plan.Claims{Makespan: 14, PeakMemory: 21}
	r := mustVerifyOn(t, c, p)
	want := []string{"claims.peak_memory is 21 bytes, the replay gives 22"}
	if diff := cmp.Diff(want, r.ClaimErrors); diff != "" || !r.Valid() {
		t.Errorf("%v (-want +got):\n%s", r.Violations, diff)
	}
}

func TestMemoryProfile(t *testing.T) {
	c, p := threeLayers()
	p.Ops = slices.Insert(p.Ops, tB3, plan.Op{Op: "D", Tensor: "a", Layer: 1, Start: 4, End: 4}, plan.Op{Op: "F", Layer: 1})
	steps, err := verify.Profile(c, p)
	if err != nil {
		t.Fatal(err)
	}
	parts := func(a, saved, delta, overhead float64) replay.MemoryParts {
		return replay.MemoryParts{Activations: a, Saved: saved, Gradients: delta, Overhead: overhead}
	}
	want := []replay.MemoryStep{
		{Op: 0, Start: 0, End: 1, During: parts(3, 0, 4, 1), After: parts(3, 0, 4, 0)},
		{Op: 1, Start: 1, End: 3, During: parts(6, 0, 4, 2), After: parts(4, 0, 4, 0)},
		{Op: 2, Start: 3, End: 4, During: parts(4, 9, 4, 5), After: parts(4, 9, 4, 0)},
		{Op: 3, Start: 4, End: 4, During: parts(4, 9, 4, 0), After: parts(4, 9, 4, 0)}, // not stored
		{Op: 4, During: parts(4, 9, 4, 0), After: parts(4, 9, 4, 0)},                   // unknown
		{Op: 5, Start: 4, End: 5, During: parts(4, 9, 7, 1), After: parts(1, 0, 3, 0)},
	}
	if diff := cmp.Diff(want, steps[:6]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g, p := fiveNodes()
	steps, err = verify.Profile(g, p)
	if err != nil {
		t.Fatal(err)
	}
	loss := replay.MemoryStep{
		Op: 2, Start: 3, End: 4,
		During: replay.MemoryParts{Fixed: 10, Activations: 5, Gradients: 3, Overhead: 2},
		After:  replay.MemoryParts{Fixed: 10, Activations: 5, Gradients: 3},
	}
	if diff := cmp.Diff(loss, steps[2]); diff != "" {
		t.Errorf("graph (-want +got):\n%s", diff)
	}
	j, p := twoBranches()
	steps, err = verify.Profile(j, p)
	if err != nil {
		t.Fatal(err)
	}
	if x := steps[jB2]; x.During != parts(2, 0, 2, 0) || x.After != parts(1, 0, 2, 0) {
		t.Errorf("join: %+v", x)
	}
}

func TestSummarizeOn(t *testing.T) {
	c, onChain := threeLayers()
	g, onGraph := fiveNodes()
	j, onJoin := twoBranches()
	late := *onChain
	late.Ops = slices.Clone(onChain.Ops)
	late.Ops[tB1].Start, late.Ops[tB1].End = 13, 15
	late.Ops = append(late.Ops, plan.Op{Op: "B", Layer: 1, Start: math.NaN()})
	nameless := *onGraph
	nameless.Instance.Name = ""
	var text strings.Builder
	for _, x := range []struct {
		in plan.Instance
		p  *plan.Plan
	}{
		{c, onChain},
		{c, &late},
		{g, &nameless},
		{j, onJoin},
		{j, plan.New(plan.Join, "nothing", j, platform.Platform{Memory: 2})},
	} {
		s, err := verify.Summarize(x.in, x.p)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.MarshalIndent(s, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s%s\n\n", s, data)
	}
	testfile.Golden(t, "rematsummary.txt", text.String())

	weights, cyclic := plantest.TwoLayers()
	s, err := verify.Summarize(weights, cyclic)
	if _, ok := s.(*weightoffload.Summary); !ok || err != nil {
		t.Errorf("of weight offloading: %T, %v", s, err)
	}
}

// BenchmarkVerifyRemat replays a million operations on a chain of 1000 layers:
// a forward of all layers, again and again, each but the last thrown away.
func BenchmarkVerifyRemat(b *testing.B) {
	c := &chain.Chain{Input: chain.Input{Activation: 1, Gradient: 1}}
	for range 1000 {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 0.1, BackwardTime: 0.2, Activation: 1.1, Saved: 2.3, Gradient: 1.1})
	}
	p := plan.New(plan.Remat, "long", c, platform.Platform{Memory: 1e9})
	for len(p.Ops) < 998_000 {
		for l := 1; l <= 1000; l++ {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpFCk, Layer: l})
			if l > 1 {
				p.Ops = append(p.Ops, plan.Op{Op: plan.OpD, Tensor: plan.TensorA, Layer: l - 1})
			}
		}
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpD, Tensor: plan.TensorA, Layer: 1000})
	}
	for l := 1; l <= 1000; l++ {
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpFAll, Layer: l})
	}
	for l := 1000; l >= 1; l-- {
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpB, Layer: l})
	}
	retime(p, func(o plan.Op) float64 {
		return map[string]float64{plan.OpFCk: 0.1, plan.OpFAll: 0.1, plan.OpB: 0.2}[o.Op]
	})
	b.ReportMetric(float64(len(p.Ops)), "ops")
	b.ReportAllocs()
	for b.Loop() {
		if r, err := verify.Replay(c, p); err != nil || !r.Valid() {
			b.Fatal(err, r.Violations[:1])
		}
	}
}

// Whatever stands in a plan, nothing panics, and what it breaks can be written.
func TestGarbage(t *testing.T) {
	c, _ := threeLayers()
	g, _ := fiveNodes()
	j, _ := twoBranches()
	testfile.Property(t, func(t *rapid.T) {
		layer := rapid.OneOf(rapid.IntRange(-1, 4), rapid.Int())
		time := rapid.OneOf(rapid.Float64Range(-1, 5), rapid.Float64(),
			rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64}))
		in := rapid.SampledFrom([]plan.Instance{c, g, j}).Draw(t, "instance")
		p := &plan.Plan{Problem: plan.Remat, Platform: platform.Platform{Memory: rapid.Float64Range(1e-300, 30).Draw(t, "memory")}}
		if in.Kind() == join.Kind {
			p.Problem = plan.Join
		}
		for range rapid.IntRange(0, 12).Draw(t, "operations") {
			p.Ops = append(p.Ops, plan.Op{
				Op:     rapid.SampledFrom([]string{"F", "B", "D", "F_all", "F_ck", "F_none", "C", "S", "LOSS", "O", ""}).Draw(t, "op"),
				Tensor: rapid.SampledFrom([]string{"", "", "a", "abar", "delta", "w"}).Draw(t, "tensor"),
				Layer:  layer.Draw(t, "layer"), Branch: layer.Draw(t, "branch"),
				Node:  rapid.SampledFrom([]string{"", "", "x", "y", "z", "dx", "w"}).Draw(t, "node"),
				Start: time.Draw(t, "start"), End: time.Draw(t, "end"),
			})
		}
		r := mustVerifyOn(t, in, p)
		if len(r.Violations) == 0 {
			t.Fatal("garbage is valid")
		}
		for _, v := range r.Violations {
			if v.Op < -1 || v.Op >= len(p.Ops) || v.Rule == "" || v.Detail == "" {
				t.Fatalf("%+v", v)
			}
		}
		if _, err := json.Marshal(r.Violations); err != nil {
			t.Fatal(err)
		}
		s, err := verify.Summarize(in, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Fatal(err)
		}
		if _, err := verify.Profile(in, p); err != nil {
			t.Fatal(err)
		}
	})
}
