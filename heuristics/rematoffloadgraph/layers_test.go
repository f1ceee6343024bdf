package rematoffloadgraph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/problem/rematgraph"
	"workbench/model/testcase"
	"workbench/model/testfile"
)

// Plans by layers are valid, and none is better than the optimum, whatever is kept and sent; some
// send.
func TestByLayers(t *testing.T) {
	r := testfile.Random(t, 18, 3)
	about := testcase.Linked()
	outer := func(b *training.Blocks, budget float64) (kept, sent []float64, err error) {
		for range b.Saved {
			k := budget / b.Whole()
			kept, sent = append(kept, k), append(sent, (1-k)*r.Float64())
		}
		return kept, sent, nil
	}
	inner := func(memory, _ []float64, sendable []bool, keep, send float64) (kept, sent []bool, err error) {
		for i, m := range memory {
			stays, goes := m <= keep, sendable[i] && m > keep && m <= 2*send
			if stays {
				keep -= m
			}
			if goes {
				send -= m
			}
			kept, sent = append(kept, stays), append(sent, goes)
		}
		return kept, sent, nil
	}
	found, moved := 0, 0
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range testfile.Cases(300) {
		x := about.Draw(r)
		g, ok := x.In.(*training.Graph)
		if !ok || x.Platform.Bandwidth < 0.1 {
			continue
		}
		for j := range g.Nodes {
			if g.Nodes[j].Phase != training.Loss {
				g.Nodes[j].Layer = fmt.Sprint("block", r.IntN(2))
			}
		}
		v, err := rematgraph.New(g)
		if err != nil {
			t.Fatal(err)
		}
		best, _, err := about.Search(x, 1<<13)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		p, bad := ByLayers(t.Context(), "layers-lp", v, x.Platform, outer, inner)
		if errors.Is(bad, plan.ErrNoPlan) || bad != nil && err != nil {
			continue
		}
		if bad != nil || err != nil || p.Claims.Makespan < best*(1-1e-9) {
			t.Fatalf("case %d: %+v, %v, the optimum is %g, %v", i, p, bad, best, err)
		}
		replays(t, g, p)
		if q, err := ByLayers(ended, "layers-lp", v, x.Platform, outer, inner); q == nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("case %d: without time: %v", i, err)
		}
		found++
		if slices.ContainsFunc(p.Ops, func(o plan.Op) bool { return o.Op == plan.OpP }) {
			moved++
		}
	}
	t.Logf("%d plans, %d send", found, moved)
	if found < testfile.Cases(60) || moved < testfile.Cases(5) {
		t.Errorf("%d plans, %d send", found, moved)
	}
}
