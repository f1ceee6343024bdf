package weightoffload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
	"workbench/model/testfile"
	verifyweightoffload "workbench/model/verify/weightoffload"
)

// method is any method of this package without options.
type method struct {
	name string
	run  func(*chain.Chain, platform.Platform) (*plan.Plan, error)
}

func methods() []method {
	background := func(run func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error)) func(*chain.Chain,
		platform.Platform) (*plan.Plan, error) {
		return func(c *chain.Chain, p platform.Platform) (*plan.Plan, error) { return run(context.Background(), c, p) }
	}
	return []method{
		{"greedy", background(Greedy)},
		{"greedy-printed", background(GreedyPrinted)},
		{"greedy-nodiscount", background(GreedyNoDiscount)},
		{"l2l", L2L},
		{"first-half", background(FirstHalf)},
	}
}

// tiny draws a chain of 1..layers layers with small integers, so that optima
// are integers and ties are frequent.
func tiny(t *rapid.T, layers int) *chain.Chain {
	c := &chain.Chain{Name: "tiny"}
	n := rapid.IntRange(1, layers).Draw(t, "layers")
	draw := func(name string, to int) float64 { return float64(rapid.IntRange(0, to).Draw(t, name)) }
	c.Input.Activation = draw("a0", 1)
	for range n {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: draw("uF", 3), BackwardTime: draw("uB", 3),
			Activation: draw("a", 2), Weight: draw("w", 3),
		})
	}
	if c.TotalTime() == 0 {
		c.Layers[0].BackwardTime = 1
	}
	return c
}

// smooth draws a chain with times that are real numbers and sizes of many
// digits.
func smooth(t *rapid.T, layers int) *chain.Chain {
	c := tiny(t, layers)
	for i := range c.Layers {
		l := &c.Layers[i]
		f := func() float64 { return rapid.Float64Range(0.1, 1).Draw(t, "f") }
		l.ForwardTime, l.BackwardTime, l.Activation, l.Weight = l.ForwardTime*f(), l.BackwardTime*f(), math.Round(l.Activation*1e6*f()),
			math.Round(l.Weight*1e6*f())
	}
	if c.TotalTime() == 0 {
		c.Layers[0].BackwardTime = 1
	}
	return c
}

// device draws a platform whose memory is in the range where it matters.
func device(t *rapid.T, c *chain.Chain) platform.Platform {
	low, high := weightoffload.FromChain(c).Range()
	share := rapid.SampledFrom([]float64{0, 0, 0.1, 0.25, 0.5, 0.75, 1, 1.5}).Draw(t, "share")
	m := math.Ceil(low + share*(high-low))
	if m == 0 {
		m = 1
	}
	beta := rapid.SampledFrom([]float64{1, 1, 1, 0.5}).Draw(t, "beta")
	if high > 1e3 {
		beta *= 1e6
	}
	return platform.Platform{Memory: m, Bandwidth: beta}
}

// verify fails the test if p is not a valid plan with right claims.
func verify(t interface {
	Helper()
	Fatalf(string, ...any)
}, c *chain.Chain, p *plan.Plan,
) {
	t.Helper()
	r, err := verifyweightoffload.Verify(c, p)
	if err != nil {
		t.Fatalf("%s: %v", p.Method, err)
	}
	if !r.Valid() {
		t.Fatalf("%s: %d violations, first %+v\n%s", p.Method, len(r.Violations), r.Violations[0], describe(c, p))
	}
	if len(r.ClaimErrors) > 0 {
		t.Fatalf("%s: claims: %v\n%s", p.Method, r.ClaimErrors, describe(c, p))
	}
}

func TestMethodsGiveValidPlans(t *testing.T) {
	for _, m := range methods() {
		t.Run(m.name, func(t *testing.T) {
			testfile.Property(t, func(t *rapid.T) {
				draw := tiny
				if rapid.Bool().Draw(t, "smooth") {
					draw = smooth
				}
				c := draw(t, rapid.SampledFrom([]int{3, 5, 12}).Draw(t, "size"))
				p := device(t, c)
				got, err := m.run(c, p)
				if err != nil {
					if !errors.Is(err, plan.ErrNoPlan) || m.name == "l2l" {
						t.Fatal(err)
					}
					return
				}
				verify(t, c, got)
			})
		})
	}
}

// describe prints a small instance and its plan.
func describe(c *chain.Chain, p *plan.Plan) string {
	if len(c.Layers) > 5 {
		return ""
	}
	s := fmt.Sprintf("M %g beta %g a0 %g T %g:", p.Platform.Memory, p.Platform.Bandwidth, c.Input.Activation, *p.Period)
	for _, l := range c.Layers {
		s += fmt.Sprintf(" (uF %g uB %g a %g w %g)", l.ForwardTime, l.BackwardTime, l.Activation, l.Weight)
	}
	for _, o := range p.Ops {
		s += fmt.Sprintf("\n%s_%d %g-%g", o.Op, o.Layer, o.Start, o.End)
	}
	return s
}

// The end of the context is no proof that there is no schedule, and says so.
func TestNoTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &chain.Chain{Name: "two", Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 2, Weight: 2}, {ForwardTime: 1, BackwardTime: 2, Weight: 2},
	}}
	p := platform.Platform{Memory: 4, Bandwidth: 1}
	for name, run := range map[string]func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error){
		"greedy": Greedy, "greedy-nodiscount": GreedyNoDiscount, "first-half": FirstHalf,
	} {
		if _, err := run(t.Context(), c, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := run(ctx, c, p); !errors.Is(err, plan.ErrNoPlan) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want %v and %v", name, err, plan.ErrNoPlan, context.Canceled)
		}
	}
}

// More memory asks for fewer choices, which must not cost greedy its plan.
func TestGreedyKeepsPlansWithMoreMemory(t *testing.T) {
	r := testfile.Random(t, 3, 4)
	number := func() float64 { return float64(r.IntN(300)) }
	for range 300 {
		c := &chain.Chain{Name: "random"}
		for range 2 + r.IntN(8) {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: r.Float64(), BackwardTime: r.Float64(), Activation: number(), Weight: number()})
		}
		low, high := weightoffload.FromChain(c).Range()
		had := math.Inf(1)
		for i := range 11 {
			p := platform.Platform{Memory: math.Floor(low + float64(i)/10*(high-low)), Bandwidth: 300}
			if _, err := Greedy(t.Context(), c, p); err == nil {
				had = min(had, p.Memory)
			} else if had < p.Memory {
				t.Errorf("a plan with memory %g, none with %g: %+v", had, p.Memory, c)
			}
		}
	}
}
