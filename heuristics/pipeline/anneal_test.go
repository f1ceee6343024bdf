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
)

// drawnInstance draws a chain of few layers, a memory, and an allocation that runs one mini-batch after the other in it,
// layers together or apart.
func drawnInstance(t *testing.T, r *rand.Rand) (*view.Instance, *view.Pattern) {
	t.Helper()
	n, procs := 2+r.IntN(4), 2+r.IntN(2)
	c := &chain.Chain{Name: "drawn", Input: chain.Input{Activation: float64(1 + r.IntN(4))}}
	for range n {
		a := float64(1 + r.IntN(6))
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: float64(1 + r.IntN(5)), BackwardTime: float64(1 + r.IntN(8)),
			Activation: a, Saved: a, Gradient: float64(1 + r.IntN(6)), Weight: float64(r.IntN(3)),
		})
	}
	var stages []plan.Stage
	for l := 1; l <= n; l++ {
		stages = append(stages, plan.Stage{Processor: r.IntN(procs), From: l, To: l})
	}
	stages = view.Merged(stages)
	p := platform.Platform{Memory: 1e9, Bandwidth: 0.5 + 4*r.Float64(), Processors: procs, WeightCopies: 1 + r.IntN(3)}
	model := []string{plan.TaskModel, plan.StageModel}[r.IntN(2)]
	in, err := view.New(c, p, model)
	if err != nil {
		t.Fatal(err)
	}
	p.Memory = math.Floor(in.OneByOne(stages).Peak(in) * (1 + 1.5*r.Float64()))
	if in, err = view.New(c, p, model); err != nil {
		t.Fatal(err)
	}
	one := in.OneByOne(stages)
	if r.IntN(2) == 0 {
		one = one.SplitLayers(in)
	}
	return in, one
}

// What anneal returns is valid by the verifier in memory that is scarce, and shorter than asked; a plan is read as the pattern that it was
// written from.
func TestAnnealIsValid(t *testing.T) {
	t.Parallel()
	found, several := 0, 0
	for seed := range uint64(testfile.Cases(600)) {
		r := rand.New(rand.NewPCG(seed, 7))
		in, one := drawnInstance(t, r)
		if one.Peak(in) > in.Memory {
			t.Fatalf("seed %d: one mini-batch after the other takes %v of %v", seed, one.Peak(in), in.Memory)
		}
		k := 1 + r.IntN(3)
		s := anneal(in, repeated(one, k), annealing{moves: 400, temperature: 0.1, below: one.Rate(), seed: seed})
		if s == nil {
			continue
		}
		found++
		p := s.Plan(in, "anneal")
		v, err := verifypipeline.Verify(in.Chain, p)
		if err != nil || !v.Valid() || len(v.ClaimErrors) > 0 {
			t.Fatalf("seed %d: %v, %+v", seed, err, v)
		}
		if s.Rate() >= one.Rate() || s.K != k {
			t.Fatalf("seed %d: %v of %d mini-batches, had %v", seed, s.Rate(), s.K, one.Rate())
		}
		if k > 1 {
			several++
		}
		again := in.Pattern(p)
		if !again.Retime() || math.Abs(again.Rate()-s.Rate()) > 1e-9*s.Rate() || again.Peak(in) != s.Peak(in) {
			t.Fatalf("seed %d: a plan of %v, %v is read as %v, %v", seed, s.Rate(), s.Peak(in), again.Rate(), again.Peak(in))
		}
	}
	if found < testfile.Cases(600)/3 || several < testfile.Cases(600)/5 {
		t.Errorf("only %d found, %d of several mini-batches", found, several)
	}
}

// After any swaps a processor's memory fits where that of the pattern with these orders does.
func TestFitsIsThePeak(t *testing.T) {
	t.Parallel()
	fit, not := 0, 0
	for seed := range uint64(testfile.Cases(400)) {
		r := rand.New(rand.NewPCG(seed, 8))
		in, one := drawnInstance(t, r)
		c := newOrders(in, repeated(one, 1+r.IntN(3)))
		if !c.retime(math.Inf(1)) {
			t.Fatalf("seed %d: no period", seed)
		}
		for range 100 {
			on, place, ok := c.drawMove(r)
			if !ok {
				continue
			}
			if c.swap(on, place); !c.retime(math.Inf(1)) {
				c.swap(on, place)
				continue
			}
			fits := true
			for on := range c.order {
				fits = fits && c.fits(on)
			}
			all := len(c.items) * c.k
			s := &view.Pattern{Period: c.period, K: c.k, Stages: c.stages, Items: c.items, F: c.times[:all], B: c.times[all:]}
			if want := in.Fits(s.Peak(in)); fits != want {
				t.Fatalf("seed %d: fits %v, the peak is %v of %v", seed, fits, s.Peak(in), in.Memory)
			}
			if fits {
				fit++
			} else {
				not++
			}
		}
	}
	if fit < 100 || not < 100 {
		t.Errorf("%d fit, %d do not", fit, not)
	}
}
