package swap

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/swap"
)

// large is a training step of 2,500 forward functions and their backwards, with
// 20,000 variables: activations that the next function, sometimes a later one, and
// the backward read, parameters from the host, gradients and workspaces.
func large() *functions.Sequence {
	const half, extra = 2500, 5000
	r := rand.New(rand.NewPCG(1, 2))
	s := &functions.Sequence{Name: "large", Functions: make([]functions.Function, 2*half)}
	for i := range s.Functions {
		f := &s.Functions[i]
		f.Kind, f.Writes, f.Time = functions.Forward, []int{}, 1e-3*(1+r.ExpFloat64())
		if i >= half {
			f.Kind = functions.Backward
		}
	}
	variable := func(size float64, initial string, writer int, readers ...int) {
		v := len(s.Variables)
		s.Variables = append(s.Variables, functions.Variable{ID: strconv.Itoa(v), Size: size, Initial: initial})
		for _, i := range append([]int{writer}, readers...) {
			f := &s.Functions[i]
			if len(f.Uses) == 0 || f.Uses[len(f.Uses)-1] != v {
				f.Uses = append(f.Uses, v)
			}
		}
		s.Functions[writer].Writes = append(s.Functions[writer].Writes, v)
	}
	for i := range half {
		back := 2*half - 1 - i
		size := 1e6 * (1 + r.ExpFloat64())
		variable(size, functions.Nowhere, i, min(i+1, half-1), back)   // activation
		variable(size, functions.Nowhere, back, min(back+1, 2*half-1)) // its gradient
		variable(1e5*r.ExpFloat64(), functions.Host, back, i)          // parameter
		variable(1e6*r.ExpFloat64(), functions.Nowhere, i)             // workspaces
		variable(1e6*r.ExpFloat64(), functions.Nowhere, back)          // .
		variable(5e5*(1+r.ExpFloat64()), functions.Nowhere, i, back)   // mask
	}
	for range extra { // skip connections
		i := r.IntN(half - 50)
		variable(2e5*(1+r.ExpFloat64()), functions.Nowhere, i, i+2+r.IntN(40), 2*half-1-i)
	}
	return s
}

// A plan for 5,000 functions and 20,000 variables takes less than a second. In the
// least memory there is no plan that meets a bound, and search tries all it knows.
func BenchmarkLarge(b *testing.B) {
	s := large()
	if err := s.Validate(); err != nil {
		b.Fatal(err)
	}
	low, high, err := view.Range(s)
	if err != nil {
		b.Fatal(err)
	}
	p := platform.Platform{Memory: low + 0.3*(high-low), Bandwidth: 12e9}
	least := platform.Platform{Memory: low, Bandwidth: 12e9}
	for _, m := range []method{
		{"naive", true, Naive},
		{"vdnn-swap", true, VDNNSwap},
		{"window", true, func(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
			return Window(ctx, s, p, p.Memory)
		}},
		{"window-search", true, WindowSearch},
		{"lms-tuned", true, LMSTuned},
		{"lms-grid", true, LMSGrid},
		{"search", true, func(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
			return Search(ctx, s, p, 1)
		}},
		{"window-search-least", true, func(ctx context.Context, s *functions.Sequence, _ platform.Platform) (*plan.Plan, error) {
			return WindowSearch(ctx, s, least)
		}},
		{"search-least", true, func(ctx context.Context, s *functions.Sequence, _ platform.Platform) (*plan.Plan, error) {
			return Search(ctx, s, least, 1)
		}},
	} {
		b.Run(m.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := m.run(b.Context(), s, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("bounds", func(b *testing.B) {
		for b.Loop() {
			if _, err := view.Bounds(s, p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
