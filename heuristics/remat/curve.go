package remat

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
)

// Curve is the trade-off between memory and makespan of a dynamic program, up to the memory for
// which it was computed. It holds the functions of the recurrence.
type Curve struct {
	method string
	c      *chain.Chain
	v, w   *model.View // as given; as the program has it, times rounded down, sizes in slots if there are any
	slots  *slotted    // nil: sizes are not rounded
	d      exactProgram
}

// tableLimit is the most bytes that the tables of one method may have.
const tableLimit = 4 << 30

// TooLargeError refuses an instance before tables are allocated that hardly any
// machine could hold. It wraps plan.ErrNoPlan.
type TooLargeError struct {
	Need, Limit float64 // bytes
	What        string  // "persistent-slots on 1000000 layers"
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("remat: %s needs tables of %.3g GiB, at most %.3g GiB are allowed", e.What, e.Need/(1<<30), e.Limit/(1<<30))
}

func (e *TooLargeError) Unwrap() error { return plan.ErrNoPlan }

// An exactProgram is a dynamic program over step functions of memory, a_0 not
// counted.
type exactProgram interface {
	// fill computes the functions, with most bytes of memory, a_0 included. With
	// a budget they are complete only as far as it says.
	fill(ctx context.Context, most float64, b *budget) error
	// whole returns the recomputation time of the best sequences as a function of memory.
	whole() *stepFunction
	// append appends the best sequence in m bytes, enough for one.
	append(q *model.Sequence, m float64)
}

// newProgram is the program of a method. The error is a *TooLargeError.
func newProgram(method string, v *model.View) (exactProgram, error) {
	x := float64(v.N)
	var d exactProgram
	need := 80 * (x + 1) * (x + 1) // functions and sums of budgets
	switch method {
	case "persistent", "persistent-slots", "revolve":
		d = &splits{v: v, method: method, forwardsKeep: method != "revolve"}
	default:
		d = &moves{v: v, method: method, printed: method == "floating-printed"}
		need += 8 * x * (x + 1) * (x + 2)
	}
	if need > tableLimit {
		return nil, exactTooLarge(method, v.N, need)
	}
	return d, nil
}

func exactTooLarge(method string, layers int, need float64) error {
	return &TooLargeError{Need: need, Limit: tableLimit, What: fmt.Sprintf("%s on %d layers", method, layers)}
}

// prepare returns the curve of a method, whose functions are to be filled. The memory
// is divided into slots, unless these are 0.
func prepare(method string, c *chain.Chain, memory float64, slots int) (k *Curve, err error) {
	k = &Curve{method: method, c: c}
	if k.v, err = model.New(c, memory); err != nil {
		return nil, err
	}
	k.w = k.v
	if slots > 0 {
		k.slots = &slotted{slots, k.v.Memory}
		k.w = k.slots.round(k.v)
	}
	k.w = k.w.RoundedDown(k.w.N)
	k.d, err = newProgram(method, k.w)
	return k, err
}

// newCurve computes the functions of a method.
func newCurve(ctx context.Context, method string, c *chain.Chain, memory float64, slots int) (*Curve, error) {
	k, err := prepare(method, c, memory, slots)
	if err != nil {
		return nil, err
	}
	if err := k.d.fill(ctx, k.w.Memory, nil); err != nil {
		return nil, err
	}
	return k, nil
}

// solveExact returns the plan of a method. For long chains it searches for one with little more
// recomputation than necessary (see [Bounds]; Revolve recomputes all layers but the last), and
// increases the limit until there is one.
func solveExact(ctx context.Context, method string, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	k, err := prepare(method, c, p.Memory, slots)
	if err != nil {
		return nil, err
	}
	w := k.w
	least, _ := w.LeastBound()                                      // in slots it may exceed the memory
	if w.N >= 16 && method != "floating-printed" && w.Fits(least) { // sequences of floating-printed need not be plans
		revolve := method == "revolve"
		least, forwards := w.Bounds()[0].Value-w.Compute(), c.Totals().ForwardTime
		if revolve {
			least = forwards - w.UF[w.N]
		}
		for _, more := range [...]float64{0.02, 0.06, 0.2, 0.6} {
			if err := k.d.fill(ctx, w.Memory, newBudget(ctx, w, w.Memory, least+more*forwards, revolve)); err != nil {
				return nil, err
			}
			if len(k.d.whole().m) > 0 {
				return k.plan(p)
			}
		}
	}
	if err := k.d.fill(ctx, w.Memory, nil); err != nil {
		return nil, err
	}
	return k.plan(p)
}

// Points returns the breakpoints of the trade-off, memory growing and makespan
// falling. They are none if nothing fits.
func (k *Curve) Points() []Point {
	f := k.d.whole()
	points := make([]Point, 0, len(f.m))
	for i, m := range f.m {
		p := Point{Memory: k.w.A[0] + m, Makespan: k.c.TotalTime() + f.c[i]}
		if k.slots != nil {
			p.Memory = k.slots.bytes(int(p.Memory))
		}
		if n := len(points); n > 0 && points[n-1].Memory == p.Memory {
			points = points[:n-1] // several slots in a byte
		}
		points = append(points, p)
	}
	return points
}

// Plan returns the plan for so many bytes, at most those the curve was made
// for. An error wraps plan.ErrNoPlan when there is none. O(N² log(breakpoints)).
func (k *Curve) Plan(memory float64) (*plan.Plan, error) {
	return k.plan(platform.Platform{Memory: memory})
}

func (k *Curve) plan(p platform.Platform) (*plan.Plan, error) {
	f, name, memory := k.d.whole(), k.method, p.Memory
	if k.slots != nil {
		if !(memory >= 0) || math.IsInf(memory, 1) {
			return nil, fmt.Errorf("%w: memory is %v bytes, it must be finite and not negative", model.ErrPlatform, memory)
		}
		name = fmt.Sprintf("%s with %d slots, to which sizes are rounded up,", name, k.slots.n)
		memory = float64(k.slots.down(memory))
	}
	i := ahead(f.m, -1, memory-k.w.A[0])
	switch {
	case len(f.m) == 0 && k.v.N <= 1024 && k.method == "persistent":
		return nil, noPlan(k.v, name, k.v.A[0]+newLeast(k.v).cost(1, k.v.N), p.Memory)
	case len(f.m) == 0:
		return nil, noPlan(k.v, name, math.Inf(1), p.Memory)
	case i < 0 || math.IsNaN(memory):
		return nil, noPlan(k.v, name, k.Points()[0].Memory, p.Memory)
	}
	s := k.v.NewSequence()
	k.d.append(s, f.m[i])
	return s.Plan(k.method, k.c, p), nil
}
