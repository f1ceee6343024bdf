package rematoffload

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	"workbench/model/zoo"
)

// hundred is a chain of so many layers whose sizes fall as those of a network of
// images do, with the times and sizes of an accelerator.
func hundred(n int) *chain.Chain {
	r := rand.New(rand.NewPCG(17, 18))
	c := &chain.Chain{Name: "hundred", Input: chain.Input{Activation: 50e6, Gradient: 50e6}}
	size := 100e6
	for i := range n {
		if i%(n/4) == n/4-1 {
			size /= 2
		}
		a := math.Round(size * (0.7 + 0.6*r.Float64()))
		u := 1e-3 * (0.5 + r.Float64())
		c.Layers = append(c.Layers, chain.Layer{
			Name: fmt.Sprint(i), ForwardTime: u, BackwardTime: 2 * u,
			Activation: a, Saved: math.Round(a * (2 + 2*r.Float64())), Gradient: a,
		})
	}
	return c
}

func BenchmarkPOFO(b *testing.B) {
	densenet, err := zoo.Load("zoo:densenet201?batch=16&image=500")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []*chain.Chain{hundred(100), densenet} {
		low, high := view.Range(c)
		p := platform.Platform{Memory: 0.8*low + 0.2*high, Bandwidth: 12e9}
		for _, slots := range []int{50, 200} {
			b.Run(fmt.Sprintf("%s/%d/%d", c.Name, c.Len(), slots), func(b *testing.B) {
				for range b.N {
					if _, err := POFO(context.Background(), c, p, slots); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	c, err := zoo.Load("zoo:resnet152?batch=16&image=500")
	if err != nil {
		b.Fatal(err)
	}
	low, high := view.Range(c)
	p := platform.Platform{Memory: 0.8*low + 0.2*high, Bandwidth: 12e9}
	for range b.N {
		if _, err := Search(context.Background(), c, p, 50); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBounds(b *testing.B) {
	c := hundred(100)
	low, high := view.Range(c)
	p := platform.Platform{Memory: 0.8*low + 0.2*high, Bandwidth: 12e9}
	for range b.N {
		if _, err := view.Bounds(c, p); err != nil {
			b.Fatal(err)
		}
	}
}
