package plan_test

import (
	"strconv"
	"strings"
	"testing"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// transfers returns the plan with operations written "F_all_1@0", "O_abar_0@0",
// each at its start; durations are those of the instance.
func transfers(problem string, c *chain.Chain, memory, bandwidth float64, ops string) *plan.Plan {
	p := plan.New(problem, "by hand", c, platform.Platform{Memory: memory, Bandwidth: bandwidth})
	for _, word := range strings.Fields(ops) {
		name, at, ok := strings.Cut(word, "@")
		start, err := strconv.ParseFloat(at, 64)
		if !ok || err != nil {
			panic(word)
		}
		cut := strings.LastIndexByte(name, '_')
		layer, err := strconv.Atoi(name[cut+1:])
		if err != nil {
			panic(word)
		}
		o := plan.Op{Op: name[:cut], Layer: layer, Start: start}
		if i := strings.IndexByte(o.Op, '_'); i == 1 && strings.Contains("OPD", o.Op[:1]) {
			o.Op, o.Tensor = o.Op[:1], o.Op[2:]
		}
		o.End = start + lengthOf(c, bandwidth, o)
		p.Ops = append(p.Ops, o)
	}
	return p
}

// lengthOf returns what an operation takes by the instance.
func lengthOf(c *chain.Chain, bandwidth float64, o plan.Op) float64 {
	if o.Op == plan.OpD || o.Layer < 0 || o.Layer > c.Len() {
		return 0
	}
	size := c.Input.Activation
	if o.Layer > 0 {
		l := &c.Layers[o.Layer-1]
		switch {
		case o.Op == plan.OpB:
			return l.BackwardTime
		case o.Op[0] == 'F':
			return l.ForwardTime
		}
		size = l.Activation
		if o.Tensor == plan.TensorAbar {
			size = l.Saved
		}
	}
	if size == 0 || o.Op[0] == 'F' {
		return 0
	}
	return size / bandwidth
}

// errata4 are the three counterexamples of errata 4; the last one's sizes and
// times are printed with δ = 0 as the first's.
func errata4() []*chain.Chain {
	flat := func(abar, uF, oF []float64) *chain.Chain {
		c := vectors(abar, uF, oF)
		c.Input.Gradient = 0
		for i := range c.Layers {
			c.Layers[i].Gradient = 0
		}
		return c
	}
	one := flat([]float64{1, 0, 0, 2, 0, 0}, []float64{1, 0, 1, 2, 0}, []float64{0, 3, 0, 0, 2})
	ten := flat([]float64{10, 0, 0, 20, 0, 0}, []float64{10, 1, 10, 20, 1}, []float64{0, 30, 0, 0, 20})
	for i := range ten.Layers {
		ten.Layers[i].BackwardTime = 1
	}
	three := flat([]float64{2, 3, 2, 2}, nil, nil)
	three.Layers[1].BackwardTime = 3
	return []*chain.Chain{one, ten, three}
}

const (
	errata4One = "F_all_1@0 O_abar_0@0 F_all_2@1 F_all_3@1 P_abar_0@1 F_all_4@2 O_abar_3@2 F_all_5@4 B_5@4 P_abar_3@4 B_4@6 B_3@6 B_2@6 B_1@6"
	errata4Ten = "F_all_1@0 O_abar_0@0 F_all_2@10 F_all_3@11 P_abar_0@11 F_all_4@21 O_abar_3@21 F_all_5@41 B_5@42 P_abar_3@42 B_4@62 B_3@63 B_2@64 B_1@65"
)

func TestOffloadByHand(t *testing.T) {
	c := errata4()
	for _, x := range []struct {
		name           string
		problem        string
		c              *chain.Chain
		beta           float64
		ops            string
		makespan, peak float64
	}{
		{"errata 4, first", plan.ActivationOffload, c[0], 1, errata4One, 6, 3},
		{"errata 4, in tens", plan.ActivationOffload, c[1], 1, errata4Ten, 66, 30},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := transfers(x.problem, x.c, x.peak, x.beta, x.ops)
			p.Claims = plan.Claims{Makespan: x.makespan, PeakMemory: x.peak}
			r := mustVerifyOn(t, plan.Instance{Chain: x.c}, p)
			if !r.Valid() || r.ClaimErrors != nil {
				t.Errorf("%+v %q", r.Violations, r.ClaimErrors)
			}
			f, err := plan.VerifyFractional(x.c, p)
			if err != nil || !f.Valid() || f.Makespan != r.Makespan || f.PeakMemory > r.PeakMemory {
				t.Errorf("in parts: %+v, %v", f, err)
			}
		})
	}
}
