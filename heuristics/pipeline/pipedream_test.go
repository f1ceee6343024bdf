package pipeline

import (
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/periodic"
	view "workbench/model/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// PipeDream is the best of its sweep, written out: every number of mini-batches
// in flight up to twice the processors, on both partitions.
func TestPipeDreamSweep(t *testing.T) {
	t.Parallel()
	beyond := 0 // chains on which more in flight than processors is best
	for seed := range uint64(testfile.Cases(150)) {
		r := rand.New(rand.NewPCG(seed, 5))
		c, p := randomChain(r, 2+r.IntN(5), false), randomPlatform(r)
		p.Processors, p.Bandwidth = 2+r.IntN(3), 1
		in, err := newInstance(c, p, Options{})
		if err != nil {
			continue
		}
		want, at := math.Inf(1), 0
		for noam := 1; noam <= 2*p.Processors; noam++ {
			fitting, _ := in.partition(noam)
			free, _ := in.partition(0)
			for _, stages := range [][]plan.Stage{free, fitting} {
				if stages == nil {
					continue
				}
				limits := make([]int, len(stages))
				limits[0] = noam
				x := in.eager(stages, limits)
				if x != nil && in.Fits(x.Peak(in.Instance)) && x.Rate() < want*(1-view.Rounding) {
					want, at = x.Rate(), noam
				}
			}
		}
		got, err := PipeDream(c, p, Options{})
		if math.IsInf(want, 1) != (err != nil) {
			t.Fatalf("seed %d: %v, the sweep has %v", seed, err, want)
		}
		if err == nil {
			if v := verified(t, c, got); math.Abs(v-want) > 1e-9*want {
				t.Fatalf("seed %d: %v, the sweep has %v", seed, v, want)
			}
			if at > in.Procs {
				beyond++
			}
		}
	}
	if beyond == 0 {
		t.Error("no chain on which more mini-batches in flight than processors is best")
	}
}

// 1F1B has as many mini-batches in flight as stages, where these are equal and
// there is no communication.
func TestOneFOneBInFlight(t *testing.T) {
	t.Parallel()
	for stages := 2; stages <= 5; stages++ {
		c := &chain.Chain{Name: "equal"}
		for range stages {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 1, Saved: 1})
		}
		c.Input.Activation = 1
		p := platform.Platform{Memory: 1000, Bandwidth: 1e9, Processors: stages}
		got, err := OneFOneB(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := periodic.VerifyPipeline(c, got)
		if err != nil || !r.Valid() {
			t.Fatal(err, r)
		}
		if nca := r.Pattern.NCA[0]; nca != stages {
			t.Errorf("%d stages: %d mini-batches in flight", stages, nca)
		}
	}
}

// MadPipe schedules several allocations: there are chains on which another than
// the one of its program is best.
func TestMadPipeTriesSeveral(t *testing.T) {
	t.Parallel()
	better := 0
	for seed := range uint64(testfile.Cases(80)) {
		r := rand.New(rand.NewPCG(seed, 6))
		c, p := randomChain(r, 5+r.IntN(3), false), randomPlatform(r)
		p.Processors = 2 + r.IntN(2)
		several, err := MadPipe(c, p, Options{})
		if err != nil {
			continue
		}
		allocation, _, err := MadPipeAllocation(c, p, FineGrid, Options{})
		if err != nil {
			t.Fatalf("seed %d: a plan, but no allocation: %v", seed, err)
		}
		one, err := Schedule(c, p, allocation, Options{})
		switch {
		case err != nil || several.Claims.Makespan < one.Claims.Makespan*(1-view.Rounding):
			better++
		case several.Claims.Makespan > one.Claims.Makespan*(1+view.Rounding):
			t.Fatalf("seed %d: %v, one allocation has %v", seed, several.Claims.Makespan, one.Claims.Makespan)
		}
	}
	if better == 0 {
		t.Error("the first allocation was the best each time")
	}
}

// Methods that are told to stop at once still return what they begin with.
func TestStop(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	close(stop)
	r := rand.New(rand.NewPCG(4, 4))
	c, p := randomChain(r, 7, false), platform.Platform{Memory: 1e4, Bandwidth: 1, Processors: 3}
	for name, method := range methods {
		q, err := method(c, p, Options{Stop: stop})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		verified(t, c, q)
	}
}
