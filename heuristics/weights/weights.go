// Package weights plans weight offloading ([001]): which weights of a network
// leave the GPU between two uses, and when they are sent and fetched back, so
// that a training step fits in the memory and takes little longer than its
// computations.
//
// Every method takes a chain and a platform and returns a cyclic plan, a
// *plan.Infeasible error when the memory is below the least for which any plan
// exists, or an error wrapping plan.ErrNoPlan when the method found none
// though one may exist. Methods promise nothing about optimality; Bounds says
// how far from it a plan can be at most.
//
// Layers are numbered from 0 here and operations as in package cycle. A gap
// g = 2k+d is the time between two uses of w_k: d = 0 from the end of B_k to
// the start of F_k, d = 1 from the end of F_k to the start of the next B_k.
// Gap g is away when w_k leaves the GPU during it: the choice (k,d) of [001]
// §5.
package weights

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.WeightOffload

// Errors of instances that mean nothing.
var (
	ErrChain    = errors.New("chain unfit for weight offloading")
	ErrPlatform = errors.New("platform unfit for weight offloading")
)

// instance is OFF(L, M, β) with what every method needs, computed once.
type instance struct {
	*cycle.Cycle
	n      int       // 2L operations
	memory float64   // M, bytes
	limit  float64   // M and the rounding of sums of sizes
	move   []float64 // move[k]: seconds to transfer w_k
	total  float64   // Σ|w_k|
	// name and platform go into plans.
	name     string
	platform platform.Platform
}

// newInstance checks that a plan can exist at all.
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	if len(c.Layers) == 0 {
		return nil, fmt.Errorf("%w: chain %q has no layers, at least one is needed", ErrChain, c.Name)
	}
	for i, l := range c.Layers {
		for _, x := range []float64{l.ForwardTime, l.BackwardTime, l.Activation, l.Weight, c.Input.Activation} {
			if !(x >= 0) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("%w: layer %d of chain %q has %v, times and sizes must be finite and not negative", ErrChain, i+1, c.Name, x)
			}
		}
	}
	if !(p.Memory > 0) || math.IsInf(p.Memory, 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", ErrPlatform, p.Memory)
	}
	if !(p.Bandwidth > 0) || math.IsInf(p.Bandwidth, 0) {
		return nil, fmt.Errorf("%w: bandwidth is %v bytes per second, it must be positive and finite", ErrPlatform, p.Bandwidth)
	}
	y := cycle.Of(c)
	in := &instance{Cycle: y, n: 2 * y.L, memory: p.Memory, limit: p.Memory * (1 + 1e-12), move: make([]float64, y.L), name: c.Name, platform: p}
	for k, w := range y.W {
		in.move[k] = w / p.Bandwidth
		in.total += w
	}
	if low, _ := y.Range(); low > in.limit {
		return nil, in.infeasible(low)
	}
	return in, nil
}

// infeasible names the operation that needs the least memory low.
func (in *instance) infeasible(low float64) error {
	e := &plan.Infeasible{Problem: Problem, Memory: low, Given: in.memory}
	for j := range in.U {
		k := in.Layer(j)
		op := "F"
		if in.Backward(j) {
			op = "B"
		}
		switch {
		case in.Peak[j] == low && in.Backward(j):
			e.Why = fmt.Sprintf("%s_%d needs its weight, its gradient and the activations kept", op, k+1)
		case in.Peak[j] == low:
			e.Why = fmt.Sprintf("%s_%d needs its weight and the activations kept", op, k+1)
		case in.W[k] > 0 && in.Act[in.before(j)]+in.W[k] == low:
			e.Why = fmt.Sprintf("the weight of %s_%d arrives while the activations of the operation before are held", op, k+1)
		default:
			continue
		}
		break
	}
	return e
}

// before returns the operation before j.
func (in *instance) before(j int) int {
	if j == 0 {
		return in.n - 1
	}
	return j - 1
}

// use returns the operation that ends gap g, and last the one before it that
// used the weight.
func (in *instance) use(g int) int {
	if g&1 == 0 {
		return in.F(g >> 1)
	}
	return in.B(g >> 1)
}

func (in *instance) last(g int) int { return in.use(g ^ 1) }

// next returns the gap that begins after operation j, and gap the one that
// ends before it.
func (in *instance) next(j int) int {
	if j < in.L {
		return 2 * (in.L - 1 - j)
	}
	return 2*(j-in.L) + 1
}

func (in *instance) gap(j int) int { return in.next(j) ^ 1 }

// schedule is a cyclic plan in flat form. Times are unwrapped: op[j] is the
// start of operation j in the cycle that starts at op[0] = 0; what happens in
// gap 2k lies between B_k and F_k of this cycle, what happens in gap 2k+1
// between F_k of this cycle and B_k of the next, so it may exceed T.
type schedule struct {
	T    float64
	op   []float64 // 2L
	away []bool    // 2L, by gap
	pre  []float64 // 2L: start of the prefetch that ends the gap, if away
	up   []float64 // L: start of the upload after B_k, if a gap of k is away
	// again holds the starts of the second uploads of GreedyNoDiscount, NaN
	// where there is none; nil for every other method.
	again []float64
}

func newSchedule(in *instance) *schedule {
	return &schedule{op: make([]float64, in.n), away: make([]bool, in.n), pre: make([]float64, in.n), up: make([]float64, in.L)}
}

func (s *schedule) copyFrom(o *schedule) {
	s.T = o.T
	copy(s.op, o.op)
	copy(s.away, o.away)
	copy(s.pre, o.pre)
	copy(s.up, o.up)
	s.again = append(s.again[:0], o.again...)
}

// uploads reports whether w_k is uploaded: once a cycle if it ever leaves.
func (s *schedule) uploads(k int) bool { return s.away[2*k] || s.away[2*k+1] }

// deleted returns when the weight of gap g is deleted: as soon as its last use
// and the upload of its value have ended.
func (s *schedule) deleted(in *instance, g int) float64 {
	k, j := g>>1, in.last(g)
	t := s.op[j] + in.U[j]
	switch {
	case g&1 == 0 || !s.away[2*k]:
		t = max(t, s.up[k]+in.move[k])
	case len(s.again) > 0 && !math.IsNaN(s.again[k]):
		t = max(t, s.again[k]+in.move[k])
	}
	return t
}

// plan writes s as a plan: operations in order of time, starts in [0,T).
// O(L log L).
func (s *schedule) plan(in *instance, method string) *plan.Plan {
	period := s.T
	p := &plan.Plan{
		Format: plan.Format, Problem: Problem, Method: method, Instance: plan.InstanceRef{Name: in.name},
		Platform: in.platform, Period: &period,
	}
	p.Ops = make([]plan.Op, 0, 7*in.L)
	add := func(kind, tensor string, k int, start, duration float64) {
		start = wrap(start-s.op[0], s.T)
		p.Ops = append(p.Ops, plan.Op{Op: kind, Tensor: tensor, Layer: k + 1, Start: start, End: start + duration})
	}
	for j := range s.op {
		kind := plan.OpF
		if in.Backward(j) {
			kind = plan.OpB
		}
		add(kind, "", in.Layer(j), s.op[j], in.U[j])
	}
	for k := range s.up {
		if s.uploads(k) {
			add(plan.OpO, plan.TensorW, k, s.up[k], in.move[k])
		}
		if len(s.again) > 0 && !math.IsNaN(s.again[k]) {
			add(plan.OpO, plan.TensorW, k, s.again[k], in.move[k])
		}
	}
	for g, away := range s.away {
		if away {
			add(plan.OpD, plan.TensorW, g>>1, s.deleted(in, g), 0)
			add(plan.OpP, plan.TensorW, g>>1, s.pre[g], in.move[g>>1])
		}
	}
	slices.SortStableFunc(p.Ops, func(a, b plan.Op) int { return cmp.Compare(a.Start, b.Start) })
	p.Claims = plan.Claims{Makespan: s.T, PeakMemory: s.peak(in)}
	return p
}

// wrap returns t modulo T in [0,T), and 0 for times that differ from a
// multiple of T by rounding only.
func wrap(t, T float64) float64 {
	if T <= 0 {
		return 0
	}
	t -= T * math.Floor(t/T)
	if t >= T*(1-1e-13) || t <= T*1e-13 {
		return 0
	}
	return t
}
