package random

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/graph"
)

// Random instances are valid, of the size asked for, and the same for the same
// seed.
func TestRandomInstances(t *testing.T) {
	for seed := range uint64(200) {
		n := 1 + int(seed%6)
		source := func() *rand.Rand { return rand.New(rand.NewPCG(seed, 9)) }
		c := Chain(source(), n)
		if err := c.Validate(); err != nil || c.Len() != n {
			t.Errorf("%d layers, %v; want %d", c.Len(), err, n)
		}
		g := Graph(source(), n)
		if err := g.Validate(); err != nil || g.Len() != 2*n+1 || g.Nodes[n].Kind != graph.Loss {
			t.Errorf("%d nodes, %v; want %d with the loss in the middle", g.Len(), err, 2*n+1)
		}
		o, memory, bandwidth := Offload(source(), n)
		if err := o.Validate(); err != nil || o.Len() != n || !(memory >= 0) || !(bandwidth > 0) {
			t.Errorf("%d layers, memory %g, bandwidth %g, %v; want %d", o.Len(), memory, bandwidth, err, n)
		}
		if p, again, b := Offload(source(), n); cmp.Diff(o, p) != "" || again != memory || b != bandwidth {
			t.Errorf("seed %d gives two instances of offloading", seed)
		}
		j := Join(source(), 1+n%3, n)
		total := 0
		for _, l := range j.Branches {
			total += l
		}
		if j.K() != 1+n%3 || total != n || len(j.Keep) != j.K() {
			t.Errorf("branches %v, keep %v; want %d with %d forwards", j.Branches, j.Keep, 1+n%3, n)
		}
		if d := cmp.Diff(c, Chain(source(), n)) + cmp.Diff(g, Graph(source(), n)) +
			cmp.Diff(j, Join(source(), 1+n%3, n)); d != "" {
			t.Error(d)
		}
	}
}
