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

// ErrSlots is the error of a number of memory slots that means nothing.
var ErrSlots = errors.New("bad number of memory slots")

// tableLimit is the most bytes that the tables of one method may have.
const tableLimit = 4 << 30

// TooLargeError refuses an instance before tables are allocated that hardly any
// machine could hold. It wraps plan.ErrNoPlan.
type TooLargeError struct {
	Need, Limit float64 // bytes
	What        string  // "persistent-slots on 1000000 layers with 500 slots"
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("remat: %s needs tables of %.3g GiB, at most %.3g GiB are allowed", e.What, e.Need/(1<<30), e.Limit/(1<<30))
}

func (e *TooLargeError) Unwrap() error { return plan.ErrNoPlan }

// A slotChain is a chain whose sizes are numbers of slots, of which the memory
// has S = slots ([004] 2.4.2). A tensor takes whole slots: rounded up each by
// itself, sums of sizes are rounded up too much. So what fits in slots fits in
// bytes, but not the other way round, and it costs up to a slot for each tensor
// in memory (not 1 + 1/S of the whole as [004] has it). Slots of 1 byte or, in
// general, slots of which all sizes are multiples round nothing. A chain of more
// layers than slots is never stored whole, however large the memory.
type slotChain struct {
	*model.View
	slots                      int
	memory                     float64 // bytes
	a, abar, delta, oF, oC, oB []int   // slots, indexed as in view; slots+1: too large to ever fit
	// until[ℓ] is Σ uF_k over k ≤ ℓ.
	until []float64
}

func newSlotChain(v *model.View, memory float64, slots int) *slotChain {
	z := &slotChain{View: v, slots: slots, memory: memory, until: make([]float64, v.N+1)}
	for _, x := range []struct {
		to   *[]int
		from []float64
	}{{&z.a, v.A}, {&z.abar, v.Abar}, {&z.delta, v.Delta}, {&z.oF, v.OF}, {&z.oC, v.OC}, {&z.oB, v.OB}} {
		*x.to = make([]int, v.N+1)
		for l, size := range x.from {
			(*x.to)[l] = z.up(size)
		}
	}
	for l := 1; l <= v.N; l++ {
		z.oC[l] = min(z.oC[l], z.abar[l]+z.oF[l]-z.a[l]) // F_ck takes no more than F_all, rounded up, too
		z.until[l] = z.until[l-1] + v.UF[l]
	}
	return z
}

// up is the least number of slots that hold so many bytes, at most slots + 1.
func (z *slotChain) up(bytes float64) int {
	if bytes > z.memory {
		return z.slots + 1
	}
	slots, rest := mulDiv(bytes, float64(z.slots), z.memory)
	if rest {
		slots++
	}
	return int(slots)
}

// down is the largest number of slots that fit in so many bytes, at most slots.
func (z *slotChain) down(bytes float64) int {
	if bytes >= z.memory {
		return z.slots
	}
	slots, _ := mulDiv(math.Floor(bytes), float64(z.slots), z.memory)
	return int(slots)
}

// bytes is the least whole number of bytes in which so many slots fit.
func (z *slotChain) bytes(slots int) float64 {
	bytes, rest := mulDiv(z.memory, float64(slots), float64(z.slots))
	if rest {
		bytes++
	}
	return float64(bytes)
}

// mulDiv is a·b/c rounded down, and whether there is a rest, for whole numbers
// with a ≤ c or b ≤ c; 0 where c is.
func mulDiv(a, b, c float64) (quotient uint64, rest bool) {
	if c == 0 {
		return 0, false
	}
	high, low := bits.Mul64(uint64(a), uint64(b))
	quotient, left := bits.Div64(high, low, uint64(c))
	return quotient, left > 0
}

// needAll is m_all^{s,t} of [004]: slots for F_all s and B_s, a_{s-1} and ā_{s-1}
// not counted.
func (z *slotChain) needAll(s, t int) int {
	return z.abar[s] + max(z.delta[t]+z.oF[s], z.delta[s]+z.delta[s-1]+z.oB[s])
}

// A slotTable is a filled table of a dynamic program.
type slotTable interface {
	// overhead is the time, in seconds, that the best sequence in m slots spends
	// on computing forwards again; +Inf if there is none.
	overhead(m int) float64
	// append appends the best sequence in m slots, of which there must be one.
	append(s *model.Sequence, m int)
}

// A SlotsCurve is the trade-off between memory and makespan that a dynamic
// program over memory slots found, for every number of slots up to all of the
// memory it was given. It holds the table of the program.
type SlotsCurve struct {
	method string
	c      *chain.Chain
	z      *slotChain
	table  slotTable
	points []Point
}

func newSlotsCurve(method string, c *chain.Chain, z *slotChain, table slotTable) *SlotsCurve {
	k := &SlotsCurve{method: method, c: c, z: z, table: table}
	time, last := c.TotalTime(), math.Inf(1)
	for m := range z.slots + 1 {
		if x := time + table.overhead(m); x < last*(1-plan.Tolerance) {
			last = x
			bytes := z.bytes(m)
			if n := len(k.points); n > 0 && k.points[n-1].Memory == bytes {
				k.points = k.points[:n-1] // several slots in a byte
			}
			k.points = append(k.points, Point{Memory: bytes, Makespan: x})
		}
	}
	return k
}

// Points returns the breakpoints of the trade-off, memory growing and makespan
// falling. They are none if nothing fits. The caller may keep them.
func (k *SlotsCurve) Points() []Point { return append([]Point(nil), k.points...) }

// Plan returns the plan for so many bytes, rounded down to slots, at most those
// the curve was computed for. An error wraps plan.ErrNoPlan when there is none.
func (k *SlotsCurve) Plan(memory float64) (*plan.Plan, error) {
	return k.plan(platform.Platform{Memory: memory})
}

func (k *SlotsCurve) plan(p platform.Platform) (*plan.Plan, error) {
	if !(p.Memory >= 0) || math.IsInf(p.Memory, 1) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be finite and not negative", model.ErrPlatform, p.Memory)
	}
	m := k.z.down(p.Memory)
	switch {
	case !math.IsInf(k.table.overhead(m), 1):
	case len(k.points) > 0:
		return nil, noPlan(k.z.View, fmt.Sprintf("%s with slots of %.6g bytes", k.method, k.z.bytes(1)), k.points[0].Memory, p.Memory)
	default:
		return nil, noPlan(k.z.View, fmt.Sprintf("%s with %d slots, to which sizes are rounded up,", k.method, k.z.slots), math.Inf(1), p.Memory)
	}
	s := k.z.View.NewSequence()
	k.table.append(s, m)
	return s.Plan(k.method, k.c, p), nil
}

// slotInstance checks what a method over slots is given; bytes are those of its
// tables.
func slotInstance(method string, c *chain.Chain, memory float64, slots int, bytes float64) (*slotChain, error) {
	if slots < 1 {
		return nil, fmt.Errorf("%w: %s was given %d, it needs at least 1; 500 are usual", ErrSlots, method, slots)
	}
	if bytes > tableLimit {
		return nil, &TooLargeError{Need: bytes, Limit: tableLimit, What: fmt.Sprintf("%s on %d layers with %d slots", method, c.Len(), slots)}
	}
	v, err := model.New(c, memory)
	if err != nil {
		return nil, err
	}
	return newSlotChain(v, v.Memory, slots), nil
}

// slotCancelled is the error of a method whose context ended.
func slotCancelled(ctx context.Context, method string) error {
	return fmt.Errorf("remat: %s: %w: %w", method, context.Cause(ctx), plan.ErrNoPlan)
}
