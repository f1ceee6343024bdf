package remat

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
)

// ErrSlots reports an invalid number of memory slots.
var ErrSlots = errors.New("bad number of memory slots")

// mostSlots is the maximum number of slots, chosen so that sums of sizes in slots are exact.
const mostSlots = 1 << 32

// PersistentSlots returns the fastest persistent plan when each size is rounded up
// to slots of 1/slots of the memory ([004] Alg. 3 and 4): [Persistent] on a chain with
// sizes in integer slots, whose functions have at most one breakpoint a slot. The errors are
// those of Persistent, and [ErrSlots]. O(N³·slots) time, O(N²·slots) space.
func PersistentSlots(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	return solveInSlots(ctx, "persistent-slots", c, p, slots)
}

// PersistentSlotsCurve returns the trade-off of [PersistentSlots] for 0, 1, …, slots
// slots. It fails as that does, except that a curve may have no points.
func PersistentSlotsCurve(ctx context.Context, c *chain.Chain, memory float64, slots int) (*Curve, error) {
	return curveInSlots(ctx, "persistent-slots", c, memory, slots)
}

// FloatingSlots returns the plan of [Floating] when each size is rounded up to slots
// of 1/slots of the memory ([004] Alg. 1 and 2). The errors are those of Floating, and
// [ErrSlots]. O(N⁴·slots) time, O(N³·slots) space.
func FloatingSlots(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	return solveInSlots(ctx, "floating-slots", c, p, slots)
}

// FloatingSlotsCurve returns the trade-off of [FloatingSlots] for 0, 1, …, slots slots.
// It fails as that does, except that a curve may have no points.
func FloatingSlotsCurve(ctx context.Context, c *chain.Chain, memory float64, slots int) (*Curve, error) {
	return curveInSlots(ctx, "floating-slots", c, memory, slots)
}

func solveInSlots(ctx context.Context, method string, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	if err := checkSlots(method, slots); err != nil {
		return nil, err
	}
	return solveExact(ctx, method, c, p, slots)
}

func curveInSlots(ctx context.Context, method string, c *chain.Chain, memory float64, slots int) (*Curve, error) {
	if err := checkSlots(method, slots); err != nil {
		return nil, err
	}
	return newCurve(ctx, method, c, memory, slots)
}

func checkSlots(method string, slots int) error {
	if slots < 1 || slots > mostSlots {
		return fmt.Errorf("%w: %s was given %d, it needs at least 1 and takes at most %d; 500 are usual", ErrSlots, method, slots, mostSlots)
	}
	return nil
}

// slotted divides a memory into n slots ([004] 2.4.2). A tensor takes whole slots:
// each is rounded up by itself, so sums of sizes are rounded up too much. What fits in
// slots therefore fits in bytes, but not the other way round, and rounding costs up to
// a slot for each tensor in memory (not 1 + 1/n of the whole as [004] has it). Slots of
// which all sizes are multiples round nothing. A chain of more layers than slots is
// never stored whole, however large the memory.
type slotted struct {
	n      int
	memory float64 // bytes
}

// round returns v with sizes and memory in slots; n+1 is a size that never fits.
func (z *slotted) round(v *model.View) *model.View {
	w := *v
	w.Memory = float64(z.n)
	for _, x := range []*[]float64{&w.A, &w.Abar, &w.Delta, &w.OF, &w.OC, &w.OB} {
		sizes := make([]float64, len(*x))
		for l, size := range *x {
			sizes[l] = float64(z.up(size))
		}
		*x = sizes
	}
	for l := 1; l <= v.N; l++ {
		w.OC[l] = min(w.OC[l], w.Abar[l]+w.OF[l]-w.A[l]) // F_ck takes no more than F_all, rounded up, too
	}
	return &w
}

// up returns the least number of slots that hold so many bytes, at most n+1.
func (z *slotted) up(bytes float64) int {
	if bytes > z.memory {
		return z.n + 1
	}
	slots, rest := mulDiv(bytes, float64(z.n), z.memory)
	if rest {
		slots++
	}
	return int(slots)
}

// down returns the largest number of slots that fit in so many bytes, at most n.
func (z *slotted) down(bytes float64) int {
	if bytes >= z.memory {
		return z.n
	}
	slots, _ := mulDiv(math.Floor(bytes), float64(z.n), z.memory)
	return int(slots)
}

// bytes returns the least whole number of bytes in which so many slots fit.
func (z *slotted) bytes(slots int) float64 {
	bytes, rest := mulDiv(z.memory, float64(slots), float64(z.n))
	if rest {
		bytes++
	}
	return float64(bytes)
}

// mulDiv returns a·b/c rounded down, and whether there is a rest, for whole numbers
// with a ≤ c or b ≤ c; 0 where c is.
func mulDiv(a, b, c float64) (quotient uint64, rest bool) {
	if c == 0 {
		return 0, false
	}
	high, low := bits.Mul64(uint64(a), uint64(b))
	quotient, left := bits.Div64(high, low, uint64(c))
	return quotient, left > 0
}
