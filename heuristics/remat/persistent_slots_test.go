package remat

import (
	"context"
	"fmt"
	"testing"

	"workbench/model/chain"
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

func BenchmarkPersistentSlots(b *testing.B) {
	for _, x := range []struct{ n, slots int }{{340, 500}} {
		c := slotResNet(x.n)
		_, high := Range(c)
		for _, share := range []float64{1, 0.5, 0.25, 0.1} {
			b.Run(fmt.Sprintf("N=%d/S=%d/M=%g%%", x.n, x.slots, 100*share), func(b *testing.B) {
				for b.Loop() {
					k, err := PersistentSlotsCurve(context.Background(), c, share*high, x.slots)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(len(k.points)), "points")
				}
			})
		}
	}
}

func BenchmarkFloatingSlots(b *testing.B) {
	for _, x := range []struct{ n, slots int }{{20, 200}, {40, 200}, {80, 200}} {
		c := slotResNet(x.n)
		_, high := Range(c)
		b.Run(fmt.Sprintf("N=%d/S=%d", x.n, x.slots), func(b *testing.B) {
			for b.Loop() {
				if _, err := FloatingSlotsCurve(context.Background(), c, high/2, x.slots); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
