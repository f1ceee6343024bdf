package testcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	optimum "workbench/model/exhaustive/layout"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/testcase/random"
)

// Layout are chains that are laid out on a synchronous pipeline.
func Layout() *Subject {
	return &Subject{
		Kind: chain.Kind, Units: "layers", Usual: 3, Most: 4,
		Random: func(r *rand.Rand, units int) (*Trial, error) {
			c, p := random.Layout(r, units)
			return &Trial{In: c, Platform: p, Pace: 1}, nil
		},
		Draw:     drawLayout,
		Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimum.Search(t.Chain(), t.Platform, states)
		},
		Smaller: smallerLayout, Text: layoutText,
	}
}

// drawLayout returns a chain of another pace and with sizes of mixed magnitude.
func drawLayout(r *rand.Rand) *Trial {
	c, p := random.Layout(r, 3)
	t := pace(r)
	factor := [...]float64{1, 1, 1000, 1e6, 1e9 + 1}[r.IntN(5)]
	for x := range c.Sizes() {
		*x *= factor
	}
	p.Memory = nearBreakpoint(r, p.Memory*factor)
	p.Latency *= t
	for i := range c.Layers {
		l := &c.Layers[i]
		l.ForwardTime, l.BackwardTime, l.WeightGradientTime = l.ForwardTime*t, l.BackwardTime*t, l.WeightGradientTime*t
		for k := range l.Recompute {
			l.Recompute[k].ForwardTime *= t
		}
	}
	return &Trial{In: c, Platform: p, Pace: t}
}

// smallerLayout drops a layer, a micro-batch or an option, or reduces a number.
func smallerLayout(x *Trial) []*Trial {
	s := &shrinker{x: x}
	s.dropLayers()
	s.change(func(y *Trial) { y.Platform.MicroBatches-- })
	s.number(func(y *Trial) *float64 { return &y.Platform.Latency })
	s.number(func(y *Trial) *float64 { return &y.Platform.Memory })
	for i := range x.Chain().Layers {
		s.change(func(y *Trial) { y.Chain().Layers[i].Recompute = nil })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].Weight })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].Saved })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].BackwardOverhead })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].WeightGradientSaved })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].ForwardTime })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].BackwardTime })
	}
	return slices.DeleteFunc(s.all, func(y *Trial) bool {
		return y.Chain().Validate() != nil || y.Chain().TotalTime() == 0 || y.Platform.Memory <= 0 || y.Platform.MicroBatches < 1
	})
}

func layoutText(x *Trial, best *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n|a_0| = %g\n", x.Platform, x.Chain().Input.Activation)
	for i := range x.Chain().Layers {
		fmt.Fprintf(&b, "layer %d: %+v\n", i+1, x.Chain().Layers[i])
	}
	if best != nil {
		fmt.Fprintf(&b, "best plan: %+v %v\n", best.Allocation, best.Recompute)
		for _, o := range best.Ops {
			fmt.Fprintf(&b, " %s:%s_%d^%d@%g", o.Resource, o.Op, o.Stage, o.MicroBatch, o.Start)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
