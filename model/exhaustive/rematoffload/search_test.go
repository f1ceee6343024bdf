package rematoffload

import (
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	optimumactivationoffload "workbench/model/exhaustive/activationoffload"
	optimumremat "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyrematoffload "workbench/model/verify/rematoffload"
)

// states is how many states the searches of these tests visit at most.
const states = 1 << 22

// Plans with both are valid and no worse than those with one of them; without a
// link they are those of rematerialization (where δ_N, which that counts from
// the start, is 0).
func TestRematOffload(t *testing.T) {
	better, none := 0, 0
	for seed := range uint64(testfile.Cases(400)) {
		r := rand.New(rand.NewPCG(seed, 6))
		n := 1 + r.IntN(3)
		c := random.Chain(r, n)
		c.Layers[n-1].Gradient = 0
		low, err := optimumremat.LeastMemory(c, states)
		if err != nil {
			t.Fatal(err)
		}
		memory := max(0, low-2+float64(r.IntN(4)))
		remat, _, err := optimumremat.Search(c, memory, states)
		alone, q, err2 := Search(c, memory, 0, 1e6)
		if remat != alone || (err == nil) != (err2 == nil) {
			t.Errorf("seed %d: %g, %v; without a link %g, %v", seed, remat, err, alone, err2)
		}
		offload, _, err3 := optimumactivationoffload.Search(c, memory, 1, states)
		got, p, err4 := Search(c, memory, 1, 1e6)
		switch {
		case err4 != nil && !errors.Is(err4, exhaustive.ErrInfeasible):
			t.Fatal(err4)
		case errors.Is(err4, exhaustive.ErrInfeasible) == (memory >= RematOffloadLeastMemory(c)):
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

// The search over events finds what the search second by second finds, which
// allows any number of offloads of a tensor and any whole times; both find a
// plan from the least memory on, and none below.
func TestOffloadAgainstSeconds(t *testing.T) {
	mixed, waits := 0, 0
	for seed := range uint64(testfile.Cases(1500)) {
		r := rand.New(rand.NewPCG(seed, 5))
		c, memory, bandwidth := random.Offload(r, 1+r.IntN(5))
		want, p, err := search(c, memory, bandwidth, 1e6, true)
		got, q, err2 := optimumactivationoffload.Search(c, memory, bandwidth, states)
		if got != want || errors.Is(err, exhaustive.ErrInfeasible) != errors.Is(err2, exhaustive.ErrInfeasible) || (err == nil) != (err2 == nil) {
			t.Errorf("seed %d: %g, %v; second by second %g, %v", seed, got, err2, want, err)
		}
		if fits := memory >= random.OffloadLeastMemory(c); fits != (err2 == nil) {
			t.Errorf("seed %d: memory %g, least %g, error %v", seed, memory, random.OffloadLeastMemory(c), err2)
		}
		if err2 != nil {
			continue
		}
		checkOffload(t, c, p)
		checkOffload(t, c, q)
		lower := max(c.TotalTime(), 2*(random.OffloadPeak(c)-memory)/bandwidth) // [004] Proposition 3
		if got < lower {
			t.Errorf("seed %d: %g is below the bound %g", seed, got, lower)
		}
		if got > lower {
			waits++
		}
		if mixes(q) {
			mixed++
		}
	}
	t.Logf("%d optima above the bound, %d with a prefetch before an offload", waits, mixed)
	if waits < testfile.Cases(100) || mixed == 0 {
		t.Error("the random chains are too easy")
	}
}

// mixes reports whether an offload follows a prefetch.
func mixes(p *plan.Plan) bool {
	fetched := false
	for _, o := range p.Ops {
		if o.Op == plan.OpO && fetched {
			return true
		}
		fetched = fetched || o.Op == plan.OpP
	}
	return false
}

// checkOffload wants a plan that the verifier accepts, claims included.
func checkOffload(t *testing.T, c *chain.Chain, p *plan.Plan) {
	t.Helper()
	r, err := verifyrematoffload.Verify(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.ClaimErrors != nil {
		t.Errorf("%+v %q\n%+v\n%+v", r.Violations, r.ClaimErrors, c, p.Ops)
	}
}
