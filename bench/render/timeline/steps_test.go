package timeline

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"workbench/bench/render/picture"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/plan"
)

// threeLayers is a chain and a plan that keeps ā_2, drops its input, and
// computes it again: the move that [004] Theorem 5 misses.
func threeLayers() (plan.Instance, *plan.Plan) {
	c := &chain.Chain{Name: "three", Layers: []chain.Layer{
		{Name: "one", ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1},
		{Name: "two", ForwardTime: 2, BackwardTime: 2, Activation: 1, Saved: 2, Gradient: 1},
		{Name: "loss", ForwardTime: 1, BackwardTime: 1},
	}}
	p := &plan.Plan{Problem: plan.Remat, Method: "hand", Instance: plan.InstanceRef{Name: "three"}}
	p.Platform.Memory = 6
	t := 0.0
	run := func(op string, layer int, duration float64) {
		p.Ops = append(p.Ops, plan.Op{Op: op, Layer: layer, Start: t, End: t + duration})
		t += duration
	}
	run(plan.OpFAll, 1, 1)
	run(plan.OpFAll, 2, 2)
	p.Ops = append(p.Ops, plan.Op{Op: plan.OpD, Tensor: plan.TensorAbar, Layer: 1, Start: t, End: t})
	run(plan.OpFAll, 3, 1)
	run(plan.OpB, 3, 1)
	run(plan.OpFAll, 1, 1)
	run(plan.OpB, 2, 2)
	run(plan.OpB, 1, 1)
	return c, p
}

func TestStepsOfAChain(t *testing.T) {
	in, p := threeLayers()
	s := stepsOf(in, p)
	if s.rows != 3 || len(s.computed) != 7 {
		t.Fatalf("%d rows, %d computations; 3 and 7 expected", s.rows, len(s.computed))
	}
	// ā_1 is kept twice, from 1 to 3 and from 6 to 9; ā_2 from 3 to 8; ā_3
	// from 4 to 5. Row 0 is the loss.
	want := map[[3]float64]bool{{2, 1, 3}: true, {2, 6, 9}: true, {1, 3, 8}: true, {0, 4, 5}: true}
	for _, k := range s.kept {
		at := [3]float64{float64(k.row), k.start, k.end}
		if !want[at] {
			t.Errorf("row %d keeps %s from %g to %g", k.row, k.kind, k.start, k.end)
		}
		delete(want, at)
	}
	if len(want) > 0 {
		t.Errorf("not kept: %v", want)
	}
}

func TestStepsOfAGraphAndAJoin(t *testing.T) {
	g := &graph.Graph{Name: "g", Nodes: []graph.Node{
		{ID: "f", Kind: graph.Forward, Time: 1, Memory: 2},
		{ID: "loss", Kind: graph.Loss, Time: 1, Memory: 1},
		{ID: "b", Kind: graph.Backward, Time: 2, Memory: 2},
	}, Edges: []graph.Edge{{From: 0, To: 1}, {From: 0, To: 2}, {From: 1, To: 2}}}
	p := &plan.Plan{Problem: plan.Remat, Ops: []plan.Op{
		{Op: plan.OpC, Node: "f", Start: 0, End: 1},
		{Op: plan.OpC, Node: "loss", Start: 1, End: 2},
		{Op: plan.OpC, Node: "b", Start: 2, End: 4},
		{Op: plan.OpD, Node: "f", Start: 4, End: 4},
	}}
	p.Platform.Memory = 10
	s := stepsOf(g, p)
	if s.rows != 2 || len(s.computed) != 3 || len(s.kept) != 1 || s.kept[0].end != 4 {
		t.Errorf("graph: %+v", s)
	}
	if a, b := s.computed[0].row, s.computed[2].row; a != 1 || b != 1 || s.computed[1].row != 0 {
		t.Errorf("forward in row %d, backward in row %d, loss in row %d; 1, 1 and 0 expected", a, b, s.computed[1].row)
	}
	j := &join.Join{Name: "j", Branches: []int{1, 0}, Keep: []bool{true, false}, ForwardTime: 1, BackwardTime: 1, LossTime: 1}
	q := &plan.Plan{Problem: plan.Join, Ops: []plan.Op{
		{Op: plan.OpS, Branch: 1, Layer: 0},
		{Op: plan.OpF, Branch: 1, Layer: 1, Start: 0, End: 1},
		{Op: plan.OpLoss, Start: 1, End: 2},
		{Op: plan.OpB, Branch: 1, Layer: 1, Start: 2, End: 3},
		{Op: plan.OpD, Tensor: plan.TensorDelta, Branch: 2, Layer: 0, Start: 3, End: 3},
	}}
	q.Platform.Memory = 5
	s = stepsOf(j, q)
	if s.rows != 3 || len(s.computed) != 4 {
		t.Errorf("join: %d rows, %d computations; 3 and 4 expected", s.rows, len(s.computed))
	}
	for _, in := range []struct {
		plan.Instance
		p *plan.Plan
	}{{g, p}, {j, q}} {
		if err := drawSVG(io.Discard, in.Instance, in.p, Options{}); err != nil {
			t.Error(err)
		}
		if err := drawTrace(io.Discard, in.Instance, in.p); err != nil {
			t.Error(err)
		}
	}
}

func TestStepsSVGIsXML(t *testing.T) {
	in, p := threeLayers()
	var b bytes.Buffer
	if err := drawSVG(&b, in, p, Options{}); err != nil {
		t.Fatal(err)
	}
	checkPicture(t, b.String())
	for _, want := range []string{"F_all_2 (two)", "abar of one kept", ">recomputed forward<", "limit", "step time 9 s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}

// The forward of layer 1 runs twice; the second time it is hatched.
func TestRecomputedIsHatched(t *testing.T) {
	in, p := threeLayers()
	var b bytes.Buffer
	if err := drawSVG(&b, in, p, Options{}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		second := strings.Contains(line, "F_all_1") && !strings.Contains(line, "x=\"84\"")
		if strings.Contains(line, "<title>F_all_") && strings.Contains(line, picture.Hatched) != second {
			t.Errorf("not the second run alone is hatched: %s", line)
		}
	}
	if n := strings.Count(b.String(), "fill=\""+picture.Hatched); n != 2 {
		t.Errorf("%d hatched, one operation and the legend expected", n)
	}
}

func TestStepsOfNothing(t *testing.T) {
	in, p := threeLayers()
	p.Ops = nil
	if err := drawSVG(io.Discard, in, p, Options{}); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("error %v", err)
	}
}
