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

// A Curve is the trade-off between memory and makespan of an exact method, up
// to the memory it was made for. It holds the functions of the recurrence.
type Curve struct {
	method string
	c      *chain.Chain
	v      *model.View // as given
	d      exactProgram
}

// An exactProgram is a dynamic program over step functions of memory, a_0 not
// counted.
type exactProgram interface {
	// fill computes the functions, with most bytes of memory, a_0 included. With
	// a budget they are complete only as far as it says.
	fill(ctx context.Context, most float64, b *budget) error
	// whole is the time that the best sequences spend on computing layers again.
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
	case "persistent", "revolve":
		d = &splits{v: v, method: method, forwardsKeep: method == "persistent"}
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

// newCurve computes the functions of a method.
func newCurve(ctx context.Context, method string, c *chain.Chain, p platform.Platform) (*Curve, error) {
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, err
	}
	d, err := newProgram(method, v.RoundedDown(v.N))
	if err != nil {
		return nil, err
	}
	if err := d.fill(ctx, v.Memory, nil); err != nil {
		return nil, err
	}
	return &Curve{method, c, v, d}, nil
}

// solveExact is the plan of a method. For long chains it looks for one with
// little more recomputation than there must be (see [Bounds]; Revolve computes
// all layers but the last again), and for more and more until there is one.
func solveExact(ctx context.Context, method string, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, err
	}
	z := v.RoundedDown(v.N)
	d, err := newProgram(method, z)
	if err != nil {
		return nil, err
	}
	k := &Curve{method, c, v, d}
	if v.N >= 16 && method != "floating-printed" { // whose sequences need not be plans
		revolve := method == "revolve"
		least, forwards := v.Bounds()[0].Value-v.Compute(), c.Totals().ForwardTime
		if revolve {
			least = forwards - v.UF[v.N]
		}
		for _, more := range [...]float64{0.02, 0.06, 0.2, 0.6} {
			if err := d.fill(ctx, v.Memory, newBudget(ctx, z, v.Memory, least+more*forwards, revolve)); err != nil {
				return nil, err
			}
			if len(d.whole().m) > 0 {
				return k.plan(p)
			}
		}
	}
	if err := d.fill(ctx, v.Memory, nil); err != nil {
		return nil, err
	}
	return k.plan(p)
}

// Points returns the breakpoints of the trade-off, memory growing and makespan
// falling. They are none if nothing fits.
func (k *Curve) Points() []Point {
	f := k.d.whole()
	points := make([]Point, len(f.m))
	for i := range points {
		points[i] = Point{Memory: k.v.A[0] + f.m[i], Makespan: k.c.TotalTime() + f.c[i]}
	}
	return points
}

// Plan returns the plan for so many bytes, at most those the curve was made
// for. An error wraps plan.ErrNoPlan when there is none. O(N² log(breakpoints)).
func (k *Curve) Plan(memory float64) (*plan.Plan, error) {
	return k.plan(platform.Platform{Memory: memory})
}

func (k *Curve) plan(p platform.Platform) (*plan.Plan, error) {
	f := k.d.whole()
	i := ahead(f.m, -1, p.Memory-k.v.A[0])
	switch {
	case len(f.m) == 0 && k.v.N <= 1024 && k.method == "persistent":
		return nil, noPlan(k.v, k.method, k.v.A[0]+newLeast(k.v).cost(1, k.v.N), p.Memory)
	case len(f.m) == 0:
		return nil, noPlan(k.v, k.method, math.Inf(1), p.Memory)
	case i < 0 || math.IsNaN(p.Memory):
		return nil, noPlan(k.v, k.method, k.v.A[0]+f.m[0], p.Memory)
	}
	s := k.v.NewSequence()
	k.d.append(s, f.m[i])
	return s.Plan(k.method, k.c, p), nil
}
