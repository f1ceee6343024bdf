package ilp

import (
	"fmt"
	"testing"

	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Both MILPs keep their promises on both backends, also without the groups that
// are ours.
func TestChainPromises(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	for _, x := range []struct {
		name          string
		backends      []solvers.Backend
		cases, layers int
	}{
		{"chain-milp", both[:1], 300, 4},
		{"chain-milp", both, 60, 3},
		{"chain-milp-bound", both[:1], 300, 4},
		{"chain-milp-bound", both, 60, 3},
	} {
		t.Run(fmt.Sprintf("%s/%d/%d", x.name, len(x.backends), x.layers), func(t *testing.T) {
			r, err := Check(t.Context(), formulation(t, x.name), x.backends, CheckOptions{Seed: 1, Cases: x.cases, Layers: x.layers})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Failures {
				t.Errorf("%s, %d times:\n%s", f.Kind, f.Count, f.Smallest.String())
			}
			t.Logf("%d of %d tight", r.Tight, r.Cases)
			if r.Cases != x.cases || r.Skipped > 0 || r.Tight < x.cases*9/10 {
				t.Errorf("%d cases, %d skipped, %d tight", r.Cases, r.Skipped, r.Tight)
			}
		})
	}
}
