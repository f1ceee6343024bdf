package exhaustive

import (
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/model/testfile"
)

// Plans with both are valid and no worse than those with one of them; without a
// link they are those of rematerialization (where δ_N, which that counts from
// the start, is 0).
func TestRematOffload(t *testing.T) {
	better, none := 0, 0
	for seed := range uint64(testfile.Cases(400)) {
		r := rand.New(rand.NewPCG(seed, 6))
		n := 1 + r.IntN(3)
		c := RandomChain(r, n)
		c.Layers[n-1].Gradient = 0
		low, err := RematLeastMemory(c, states)
		if err != nil {
			t.Fatal(err)
		}
		memory := max(0, low-2+float64(r.IntN(4)))
		remat, _, err := Remat(c, memory, states)
		alone, q, err2 := RematOffload(c, memory, 0, 1e6)
		if remat != alone || (err == nil) != (err2 == nil) {
			t.Errorf("seed %d: %g, %v; without a link %g, %v", seed, remat, err, alone, err2)
		}
		offload, _, err3 := Offload(c, memory, 1, states)
		got, p, err4 := RematOffload(c, memory, 1, 1e6)
		switch {
		case err4 != nil && !errors.Is(err4, ErrInfeasible):
			t.Fatal(err4)
		case errors.Is(err4, ErrInfeasible) == (memory >= RematOffloadLeastMemory(c)):
			t.Errorf("seed %d: %v in %g, the least memory is %g", seed, err4, memory, RematOffloadLeastMemory(c))
		case err4 != nil:
			none++
			if err == nil || err3 == nil {
				t.Errorf("seed %d: no plan; but %v without offloading, %v without recomputing", seed, err, err3)
			}
			continue
		}
		checkOffload(t, c, p)
		if err == nil {
			checkOffload(t, c, q)
		}
		if err == nil && got > remat || err3 == nil && got > offload {
			t.Errorf("seed %d: %g; %g without offloading, %g without recomputing", seed, got, remat, offload)
		}
		if (err != nil || got < remat) && (err3 != nil || got < offload) {
			better++
		}
	}
	t.Logf("%d better than either alone, %d without a plan", better, none)
	if better == 0 || none == 0 {
		t.Error("the random chains are too easy")
	}
}
