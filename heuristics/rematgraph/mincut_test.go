package rematgraph

import (
	"errors"
	"math"
	"slices"
	"testing"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// kept returns the bytes that are kept from the forward part if so many nodes run again.
func kept(c *partition, again func(j int) bool) (bytes float64) {
	for i, w := range c.v.Writer {
		read := func(j int) bool { return !c.forward(j) || again(j) }
		if c.forward(w) && !again(w) && slices.ContainsFunc(c.v.Succ[i], read) {
			bytes += c.v.Memory[i]
		}
	}
	return bytes
}

// The partition keeps the least bytes of all sets of cheap nodes, and its schedule is a plan
// in which nothing else runs again.
func TestMinCut(t *testing.T) {
	r := testfile.Random(t, 5, 6)
	operations := []string{"aten.add.Tensor", "aten.mm.default", "aten.native_batch_norm.default+aten.relu_.default", "aten.mul.Tensor"}
	saves, again := 0, 0
	for range testfile.Cases(400) {
		g := random.Training(r, 1+r.IntN(5))
		for j := range g.Nodes {
			g.Nodes[j].Operation = operations[r.IntN(len(operations))]
		}
		v := view(t, g)
		all, _, _ := v.StoreAll().Peak()
		for _, cheap := range []func(string) bool{pointwise, light} {
			c := newPartition(v)
			c.split(cheap)
			var may []int
			for j := range v.N {
				if ok := c.forward(j) && c.mayRunAgain(j, cheap); ok {
					may = append(may, j)
				} else if c.again[j] {
					t.Fatalf("%s: node %d runs again", g.Name, j)
				}
			}
			least := math.Inf(1)
			for set := range 1 << len(may) {
				least = min(least, kept(c, func(j int) bool {
					at := slices.Index(may, j)
					return at >= 0 && set>>at&1 != 0
				}))
			}
			got := kept(c, func(j int) bool { return c.again[j] })
			if got != least {
				t.Fatalf("%s: %v bytes are kept, %v would do", g.Name, got, least)
			}
			s := c.carryOut()
			times := count(s)
			for j := range v.N {
				if times[j] > 1 && !c.again[j] && v.Until[j] == v.N {
					t.Fatalf("%s: node %d runs %d times", g.Name, j, times[j])
				}
				if c.again[j] {
					again++
				}
			}
			peak, _, _ := s.Peak()
			if peak < all {
				saves++
			}
			p, err := fit("min-cut", s, platform.Platform{Memory: peak})
			if err != nil {
				t.Fatal(err)
			}
			verified(t, g, p)
		}
	}
	if saves < testfile.Cases(40) || again < testfile.Cases(200) {
		t.Errorf("%d plans need less than all, %d nodes run again", saves, again)
	}
}

// count returns how often nodes are computed.
func count(s *rematgraph.Schedule) []int {
	times := make([]int, s.View().N)
	for t := range times {
		for j := range times {
			if s.Computed(t, j) {
				times[j]++
			}
		}
	}
	return times
}

// Attention by hand: the mask that was drawn and the products stay, what is
// pointwise runs again, the softmax only where that is asked for.
func TestMinCutOfALayer(t *testing.T) {
	g := &training.Graph{Name: "layer", Storages: []training.Storage{{ID: "x", Bytes: 8, Resident: true, Kind: training.Input}}}
	node := func(phase, operation string, random bool, reads ...int) {
		g.Storages = append(g.Storages, training.Storage{ID: operation + phase, Bytes: 8, Kind: training.Value})
		g.Nodes = append(g.Nodes, training.Node{
			ID: operation + phase, Operation: operation, Phase: phase, Time: 1, Random: random, Reads: reads,
			Writes: []int{len(g.Storages) - 1},
		})
	}
	node(training.Forward, "aten.bmm.default", false, 0)                        // 1
	node(training.Forward, "aten._softmax.default", false, 1)                   // 2
	node(training.Forward, "aten.empty_like.default+aten.bernoulli_", true, 2)  // 3
	node(training.Forward, "aten.mul.Tensor", false, 2, 3)                      // 4
	node(training.Loss, "aten.mm.default", false, 4)                            // 5
	node(training.Backward, "aten.mm.default", false, 4, 5)                     // 6
	node(training.Backward, "aten.mul.Tensor", false, 6, 3)                     // 7
	node(training.Backward, "aten._softmax_backward_data.default", false, 7, 2) // 8
	g.Storages[1].Bytes = 4
	g.Storages[5].Result, g.Storages[8].Result = true, true
	v := view(t, g)
	for aggressive, want := range map[bool][]int{false: {1, 1, 1, 2, 1, 1, 1, 1}, true: {1, 2, 1, 2, 1, 1, 1, 1}} {
		p, err := MinCut(v, platform.Platform{Memory: 1000}, aggressive)
		if err != nil {
			t.Fatal(err)
		}
		verified(t, g, p)
		times := make([]int, v.N)
		for _, o := range p.Ops {
			if o.Op == plan.OpC {
				times[slices.IndexFunc(g.Nodes, func(n training.Node) bool { return n.ID == o.Node })]++
			}
		}
		if !slices.Equal(times, want) {
			t.Errorf("aggressive %v: nodes run %v times, not %v", aggressive, times, want)
		}
	}
	for j := range g.Nodes {
		g.Nodes[j].Operation = "add"
	}
	if _, err := MinCut(view(t, g), platform.Platform{Memory: 1000}, false); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("operations of nobody: %v", err)
	}
}
