package pipeline

import (
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/testfile"
	verifypipeline "workbench/model/verify/pipeline"
	"workbench/model/zoo"
)

// sweep is what PipeDream chooses from, written out: every number of mini-batches in flight
// up to twice the processors, on both partitions.
type sweep struct {
	best, eager float64 // the shortest period, and that of simulations that settle; +Inf: none fits
	at          int     // mini-batches in flight of the best
	unsettled   int     // simulations
}

func (in *instance) sweep() sweep {
	x := sweep{best: math.Inf(1), eager: math.Inf(1)}
	for noam := 1; noam <= 2*in.Procs; noam++ {
		fitting, _ := in.partition(noam)
		free, _ := in.partition(0)
		for _, stages := range [][]plan.Stage{free, fitting} {
			if stages == nil {
				continue
			}
			limits := make([]int, len(stages))
			limits[0] = noam
			s := in.eager(stages, limits)
			settled := s != nil
			if !settled {
				x.unsettled++
				s = in.smallest(stages, in.Items(stages), 0)
			}
			if s == nil || !in.Fits(s.Peak(in.Instance)) {
				continue
			}
			if settled {
				x.eager = min(x.eager, s.Rate())
			}
			if s.Rate() < x.best*(1-view.Rounding) {
				x.best, x.at = s.Rate(), noam
			}
		}
	}
	return x
}

// PipeDream is the best of its sweep.
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
		want := in.sweep()
		got, err := PipeDream(c, p, Options{})
		if math.IsInf(want.best, 1) != (err != nil) {
			t.Fatalf("seed %d: %v, the sweep has %v", seed, err, want)
		}
		if err == nil {
			if v := verified(t, c, got); math.Abs(v-want.best) > 1e-9*want.best {
				t.Fatalf("seed %d: %v, the sweep has %v", seed, v, want)
			}
			if want.at > in.Procs {
				beyond++
			}
		}
	}
	if beyond == 0 {
		t.Error("no chain on which more mini-batches in flight than processors is best")
	}
}

// Where simulations do not settle, PipeDream is never worse than the best that does, and on
// these networks better: 1F1B* of their partitions.
func TestPipeDreamWhereSimulationsDoNotSettle(t *testing.T) {
	t.Parallel()
	try := func(name string, c *chain.Chain, p platform.Platform) float64 {
		p.WeightCopies = platform.DefaultWeightCopies
		in, err := newInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := in.sweep()
		got, err := PipeDream(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		period := verified(t, c, got)
		if math.Abs(period-want.best) > 1e-9*want.best {
			t.Errorf("%s: %v, the sweep has %v", name, period, want)
		}
		if want.unsettled == 0 || period > 0.98*want.eager {
			t.Errorf("%s: %v, %v of the simulations that settle; %d do not", name, period, want.eager, want.unsettled)
		}
		return period
	}
	for _, name := range testfile.Few(1, "resnet34", "densenet121") {
		c, err := zoo.Chain(name, zoo.Params{"image": "1000", "batch": "8"})
		if err != nil {
			t.Fatal(err)
		}
		try(name, c, platform.Platform{Memory: 8e9, Bandwidth: 24e9, Processors: 8})
	}
	c, p := profiled(t, "alexnet"), platform.Platform{Memory: 64 << 30, Bandwidth: 10e9, Processors: 4}
	if _, least, err := Partition(c, p); err != nil || try("alexnet", c, p) > least*(1+plan.Tolerance) {
		t.Errorf("AlexNet takes more than the load of PipeDream's partition, %g (%v)", least, err)
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
		r, err := verifypipeline.Verify(c, got)
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
