package weightoffload

import (
	"errors"
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

// Transfers of 1e-15 s between computations of none: to the verifier all of that is
// one instant, at which a prefetch helps nobody to room.
func TestTransfersWithinAnInstant(t *testing.T) {
	c := &chain.Chain{Name: "instants", Layers: []chain.Layer{
		{ForwardTime: 3e-6, Weight: 1000},
		{ForwardTime: 1e-6, Activation: 2, Weight: 1000000002},
		{ForwardTime: 1e-6, BackwardTime: 3e-6, Weight: 2000},
	}}
	p := platform.Platform{Memory: 2000002406, Bandwidth: 1e18}
	got, err := Search(t.Context(), c, p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, c, got)
	if *got.Period > 8e-6*(1+1e-8) {
		t.Errorf("period %v, the computations take 8e-6", *got.Period)
	}
}

// Sizes of all magnitudes on links of all speeds, so that transfers are
// shorter than an instant, a few instants long, or as long as usual.
func TestInstants(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c := &chain.Chain{Name: "instants", Layers: make([]chain.Layer, rapid.IntRange(2, 6).Draw(t, "layers"))}
		time := rapid.SampledFrom([]float64{0, 0, 0, 1e-3, 1, 1, 2, 3})
		size := rapid.SampledFrom([]float64{0, 1, 2, 400, 1000, 2000, 1e6, 1e9, 1000000002})
		for i := range c.Layers {
			l := &c.Layers[i]
			l.ForwardTime, l.BackwardTime = 1e-6*time.Draw(t, "uF"), 1e-6*time.Draw(t, "uB")
			l.Activation, l.Weight = size.Draw(t, "a"), size.Draw(t, "w")
		}
		if c.TotalTime() < 1e-6 {
			c.Layers[0].BackwardTime = 1e-6
		}
		low, high := weightoffload.FromChain(c).Range()
		m := low + math.Floor(rapid.Float64Range(0, 1).Draw(t, "share")*(high-low))
		p := platform.Platform{Memory: max(1, m), Bandwidth: rapid.SampledFrom([]float64{1e15, 1e16, 1e17, 3e17, 1e18, 1e19, 1e24}).Draw(t,
			"bandwidth")}
		for _, m := range append(methods(), method{"search", func(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			return Search(t.Context(), c, p, Options{Moves: 50})
		}}) {
			got, err := m.run(c, p)
			switch {
			case err == nil:
				verify(t, c, got)
			case m.name == "search" || m.name == "l2l" || !errors.Is(err, plan.ErrNoPlan):
				t.Fatalf("%s: %v", m.name, err)
			}
		}
	})
}

// However long transfers are beside an instant of the period, what a plan claims is what its replay finds,
// and what is valid in memory M is so in the peak that it claims.
func TestClaimsWithinAnInstant(t *testing.T) {
	instant := plan.Tolerance
	testfile.Property(t, func(t *rapid.T) {
		c := tiny(t, rapid.SampledFrom([]int{2, 3, 6}).Draw(t, "size"))
		share := rapid.SampledFrom([]float64{
			0, 1e-12, 1e-10, math.Nextafter(instant, 0), instant, math.Nextafter(instant, 1), 2e-9, 1e-3,
		}).Draw(t, "transfer")
		low, high := weightoffload.FromChain(c).Range()
		p := platform.Platform{Memory: max(1, low+float64(rapid.IntRange(0, int(high-low)).Draw(t, "more"))), Bandwidth: math.MaxFloat64}
		if share > 0 {
			p.Bandwidth = float64(rapid.IntRange(1, 3).Draw(t, "size")) / (share * c.TotalTime())
		}
		for _, m := range append(methods(), method{"search", func(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			return Search(t.Context(), c, p, Options{Moves: 50})
		}}) {
			got, err := m.run(c, p)
			if errors.Is(err, plan.ErrNoPlan) && m.name != "search" && m.name != "l2l" {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", m.name, err)
			}
			verify(t, c, got)
			got.Platform.Memory = max(1, got.Claims.PeakMemory) // a plan has some
			verify(t, c, got)
			got.Platform.Memory--
			if r, err := verifyweightoffload.Verify(c, got); got.Platform.Memory > 0 && (err != nil || r.Valid()) {
				t.Fatalf("%s: %v, valid in less than its peak of %g\n%s", m.name, err, got.Claims.PeakMemory, describe(c, got))
			}
		}
	})
}
