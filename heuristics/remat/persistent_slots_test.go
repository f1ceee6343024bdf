package remat

import (
	"context"
	"fmt"
	"testing"

	"workbench/model/instance/chain"
	model "workbench/model/problem/remat"
	"workbench/model/zoo"
)

// slotResNet is a chain like ResNet-1001's ([004] 2.4): blocks of three layers in
// three stages, each stage with half the activations and a quarter of the
// pixels of the one before, and a loss.
func slotResNet(n int) *chain.Chain {
	c := &chain.Chain{Name: fmt.Sprintf("like resnet, %d layers", n), Input: chain.Input{Activation: 602112, Gradient: 602112}}
	for l := 1; l < n; l++ {
		stage := 3 * (l - 1) / (n - 1)
		width := float64(int(6422528) >> stage) // bytes of an inner activation
		layer := chain.Layer{ForwardTime: 0.0007, Activation: 4 * width, Saved: 6 * width}
		switch l % 3 {
		case 0: // 1×1 down
			layer = chain.Layer{ForwardTime: 0.0009, Activation: 5 * width, Saved: 7 * width}
		case 1: // 3×3
			layer = chain.Layer{ForwardTime: 0.0011, Activation: 5 * width, Saved: 7 * width, ForwardOverhead: width, BackwardOverhead: 2 * width}
		}
		layer.ForwardTime *= 1 + 0.01*float64(stage)
		layer.BackwardTime = 2 * layer.ForwardTime
		layer.Gradient = layer.Activation
		c.Layers = append(c.Layers, layer)
	}
	c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1e-5, BackwardTime: 1e-5, Activation: 4, Saved: 4, Gradient: 4})
	return c
}

// slotPrefix is the first n-1 layers of a network and its loss.
func slotPrefix(b *testing.B, network string, n int) *chain.Chain {
	b.Helper()
	c, err := zoo.Load(network)
	if err != nil {
		b.Fatal(err)
	}
	c.Layers = append(c.Layers[:min(n, c.Len())-1:n], c.Layers[c.Len()-1])
	return c
}

// Whole curves up to half of what storing everything needs, of the beginning of
// ResNet-1001.
func BenchmarkPersistentSlots(b *testing.B) {
	for _, x := range []struct{ n, slots int }{{85, 500}, {170, 500}, {340, 125}, {340, 250}, {340, 500}, {340, 1000}} {
		c := slotPrefix(b, "zoo:resnet1001", x.n)
		memory := storeAll(model.FromChain(c)).Peak / 2
		b.Run(fmt.Sprintf("N=%d/S=%d", c.Len(), x.slots), func(b *testing.B) {
			for b.Loop() {
				if _, err := PersistentSlotsCurve(context.Background(), c, memory, x.slots); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The same with other limits, of which the curve is of more or less use and the
// bounds bite more or less.
func BenchmarkPersistentSlotsMemory(b *testing.B) {
	c := slotPrefix(b, "zoo:resnet1001", 340)
	high := storeAll(model.FromChain(c)).Peak
	for _, share := range []float64{0.05, 0.1, 0.25, 0.5, 1} {
		b.Run(fmt.Sprintf("N=340/S=500/M=%g%%", 100*share), func(b *testing.B) {
			for b.Loop() {
				k, err := PersistentSlotsCurve(context.Background(), c, share*high, 500)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(k.Points())), "points")
			}
		})
	}
}
