package remat

import (
	"context"
	"fmt"
	"testing"

	model "workbench/model/problem/remat"
)

// Whole curves up to half of what storing everything needs, of the beginning of
// ResNet-1001.
func BenchmarkFloatingSlots(b *testing.B) {
	for _, x := range []struct{ n, slots int }{{20, 200}, {40, 100}, {40, 200}, {40, 400}, {80, 200}, {160, 200}} {
		c := slotPrefix(b, "zoo:resnet1001", x.n)
		memory := storeAll(model.FromChain(c)).Peak / 2
		b.Run(fmt.Sprintf("N=%d/S=%d", c.Len(), x.slots), func(b *testing.B) {
			for b.Loop() {
				if _, err := FloatingSlotsCurve(context.Background(), c, memory, x.slots); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
