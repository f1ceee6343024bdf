package activationoffload

import (
	"context"
	"fmt"
	"testing"
)

// dynProgNetworks are chains of 39 to 341 layers.
var dynProgNetworks = []string{
	"resnet101?image=500&batch=16", "resnet152?image=500&batch=16", "densenet121?image=500&batch=16",
	"densenet201", "resnet1001",
}

// BenchmarkDynProgSlots is the whole method, with both rules for ε_G. What is
// aimed at: 100 layers and 500 slots in 2 s on one core.
func BenchmarkDynProgSlots(b *testing.B) {
	for _, name := range dynProgNetworks {
		for _, slots := range []int{500, 5000} {
			c, p := dynProgZoo(b, name, 0.4)
			b.Run(fmt.Sprintf("%s/N=%d/S=%d", c.Name, c.Len(), slots), func(b *testing.B) {
				for b.Loop() {
					if _, err := DynProgSlots(context.Background(), c, p, slots); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkDynProg is the method without slots; within is what the claim may be
// above the optimum of its model, as part of it.
func BenchmarkDynProg(b *testing.B) {
	for _, name := range dynProgNetworks {
		c, p := dynProgZoo(b, name, 0.4)
		b.Run(fmt.Sprintf("%s/N=%d", c.Name, c.Len()), func(b *testing.B) {
			for b.Loop() {
				k, err := DynProgClaim(context.Background(), c, p, GapOverlap)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(k.States), "states")
				b.ReportMetric(k.Within/k.Makespan, "within")
			}
		})
	}
}
